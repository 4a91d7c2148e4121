"""LoRA fine-tuning of a HuBERT encoder for keyword spotting (fixed-length clips, 12 classes)."""
import argparse
import random

import numpy as np
import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import HubertConfig, HubertForSequenceClassification

LABELS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "_silence_", "_unknown_"]


class KeywordClips(Dataset):
    """Fixed-length waveforms, normalised to zero mean and unit variance."""

    def __init__(self, n_clips, n_samples, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(LABELS), n_clips)
        t = np.arange(n_samples) / 4000.0
        tones = 120.0 + 60.0 * self.labels[:, None]
        self.wave = np.sin(2 * np.pi * tones * t[None]) + 0.3 * rng.standard_normal((n_clips, n_samples))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        w = self.wave[i]
        w = (w - w.mean()) / (w.std() + 1e-7)
        return torch.tensor(w, dtype=torch.float32), int(self.labels[i])


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--momentum", type=float, default=0.9)
    ap.add_argument("--weight-decay", type=float, default=1e-4)
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--clip-samples", type=int, default=800)
    ap.add_argument("--seed", type=int, default=13)
    return ap.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def build_model():
    config = HubertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(24, 24),
        conv_kernel=(10, 4),
        conv_stride=(8, 4),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        conv_pos_batch_norm=True,
        classifier_proj_size=32,
        num_labels=len(LABELS),
        apply_spec_augment=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.1,
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
                      modules_to_save=["projector", "classifier"])
    return get_peft_model(model, lora)


def train_step(model, optimizer, wave, labels):
    optimizer.zero_grad()
    loss = model(input_values=wave, labels=labels).loss
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    args = parse_args()
    set_seed(args.seed)
    device = torch_xla.device()

    model = build_model().to(device)
    model.train()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=args.lr, momentum=args.momentum, weight_decay=args.weight_decay)

    data = KeywordClips(args.batch_size * args.steps, args.clip_samples, args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, drop_last=True)
    torch_xla.sync()

    for step, (wave, labels) in enumerate(loader):
        loss = train_step(model, optimizer, wave.to(device), labels.to(device))
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
