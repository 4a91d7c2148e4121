"""Fine-tunes a small HuBERT for spoken-command classification with the Trainer."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import tempfile

import numpy as np
import torch
import torch_xla
from torch.utils.data import DataLoader, Dataset
from transformers import (
    HubertConfig,
    HubertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

SAMPLE_RATE = 8000
COMMANDS = ("up", "down", "left", "right", "stop")
CLIP = 1600


def synthesize(label, rng):
    """A short chirp whose direction and harmonics depend on the command."""
    t = np.arange(CLIP) / SAMPLE_RATE
    start, end = [(200, 600), (600, 200), (300, 300), (700, 700), (200, 200)][label]
    jitter = rng.uniform(0.9, 1.1)
    freq = jitter * np.linspace(start, end, CLIP)
    phase = 2 * np.pi * np.cumsum(freq) / SAMPLE_RATE
    wave = np.sin(phase) + 0.4 * np.sin((2 + label % 2) * phase)
    envelope = np.hanning(CLIP) ** rng.uniform(0.3, 0.7)
    noise = rng.normal(scale=0.1, size=CLIP)
    return (wave * envelope + noise * t.max()).astype(np.float32)


class CommandClips(Dataset):
    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(COMMANDS), size)
        clips = np.stack([synthesize(int(y), rng) for y in self.labels])
        mean = clips.mean(axis=1, keepdims=True)
        std = clips.std(axis=1, keepdims=True)
        self.clips = (clips - mean) / (std + 1e-5)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_values": self.clips[index], "labels": int(self.labels[index])}


def collate(items):
    return {
        "input_values": torch.from_numpy(np.stack([i["input_values"] for i in items])),
        "labels": torch.tensor([i["labels"] for i in items]),
    }


def build_model():
    config = HubertConfig(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(16, 16, 32),
        conv_kernel=(10, 4, 3),
        conv_stride=(8, 4, 2),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        hidden_dropout=0.05,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.3,
        mask_time_length=3,
        mask_time_min_masks=1,
        mask_feature_prob=0.0,
        classifier_proj_size=32,
        num_labels=len(COMMANDS),
        id2label=dict(enumerate(COMMANDS)),
        label2id={name: i for i, name in enumerate(COMMANDS)},
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


@torch.no_grad()
def accuracy(model, dataset, batch_size=8):
    model.eval()
    device = next(model.parameters()).device
    hits = 0
    for batch in DataLoader(dataset, batch_size, collate_fn=collate, drop_last=True):
        logits = model(input_values=batch["input_values"].to(device)).logits
        torch_xla.sync()
        hits += int((logits.cpu().argmax(dim=-1) == batch["labels"]).sum())
    return hits / (len(dataset) // batch_size * batch_size)


def main():
    set_seed(29)
    model = build_model()
    with tempfile.TemporaryDirectory() as workdir:
        args = TrainingArguments(
            output_dir=workdir,
            max_steps=24,
            per_device_train_batch_size=8,
            optim="adamw_torch",
            learning_rate=2e-3,
            lr_scheduler_type="cosine",
            warmup_steps=5,
            weight_decay=0.01,
            max_grad_norm=1.0,
            logging_steps=8,
            save_strategy="no",
            dataloader_drop_last=True,
            dataloader_pin_memory=False,
            remove_unused_columns=False,
            report_to=[],
            disable_tqdm=True,
            seed=29,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=CommandClips(128, seed=1),
            data_collator=collate,
        )
        result = trainer.train()
        print(f"loss {result.training_loss:.4f}")
    print(f"held-out accuracy {accuracy(trainer.model, CommandClips(32, seed=2)):.3f}")


if __name__ == "__main__":
    main()
