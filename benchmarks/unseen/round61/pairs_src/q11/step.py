"""LoRA fine-tuning of a small HuBERT for keyword spotting (one-second clips)."""
import argparse

import numpy as np
import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import HubertConfig, HubertForSequenceClassification


class CommandClips:
    """Fixed-length clips, already resampled and normalised."""

    def __init__(self, n_clips, clip_len, n_labels, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, n_labels, size=n_clips)
        t = np.arange(clip_len) / clip_len
        tone = np.sin(2 * np.pi * (4 + 3 * self.labels[:, None]) * t[None])
        noise = rng.standard_normal((n_clips, clip_len))
        wav = tone + 0.3 * noise
        wav = (wav - wav.mean(1, keepdims=True)) / wav.std(1, keepdims=True)
        self.wav = wav.astype(np.float32)
        self.rng = rng

    def batches(self, batch_size):
        while True:
            order = self.rng.permutation(len(self.labels))
            for i in range(0, len(order) - batch_size + 1, batch_size):
                idx = order[i:i + batch_size]
                yield torch.from_numpy(self.wav[idx]), torch.from_numpy(self.labels[idx])


def build_model(n_labels):
    config = HubertConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_kernel=(10, 4),
        conv_stride=(5, 4),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        hidden_act="relu",
        conv_pos_batch_norm=True,
        apply_spec_augment=False,
        classifier_proj_size=16,
        num_labels=n_labels,
        attn_implementation="eager",
    )
    base = HubertForSequenceClassification(config)
    base.freeze_feature_encoder()
    lora = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "v_proj"],
        modules_to_save=["projector", "classifier"],
    )
    return get_peft_model(base, lora)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch_xla.device()
    n_labels = 6
    model = build_model(n_labels).to(device)
    model.train()
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=args.lr, weight_decay=1e-2)

    clips = CommandClips(64, 800, n_labels)
    for step, (wav, label) in zip(range(args.steps), clips.batches(args.batch_size)):
        wav, label = wav.to(device), label.to(device)
        optimizer.zero_grad(set_to_none=True)
        out = model(input_values=wav, labels=label)
        out.loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {out.loss.item():.4f}")


if __name__ == "__main__":
    main()
