"""Queen presence in bee hives from contact-microphone audio: HuBERT classifier with accelerate."""
import argparse

import numpy as np
import torch
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import HubertConfig, HubertForSequenceClassification, get_linear_schedule_with_warmup

LABELS = ["queenright", "queenless", "swarming"]
RATE = 4000


class HiveClips(Dataset):
    """Synthetic hive hum: worker wing-beat band, plus piping or a roar."""

    def __init__(self, n, seconds=0.4, seed=0):
        self.n, self.samples, self.seed = n, int(seconds * RATE), seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        t = np.arange(self.samples) / RATE
        label = i % len(LABELS)
        hum = sum(np.sin(2 * np.pi * (225 + rng.normal(0, 12)) * k * t + rng.uniform(0, 6)) / k for k in (1, 2, 3))
        if label == 1:
            hum = hum + 0.8 * rng.normal(0, 1, t.shape)
        elif label == 2:
            hum = hum + np.sin(2 * np.pi * (420 + 60 * np.sin(2 * np.pi * 5 * t)) * t)
        hum = hum + rng.normal(0, 0.3, t.shape)
        hum = (hum - hum.mean()) / (hum.std() + 1e-6)
        return {"input_values": torch.tensor(hum, dtype=torch.float32), "labels": label}


def make_model():
    config = HubertConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_kernel=(10, 8),
        conv_stride=(8, 8),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        conv_pos_batch_norm=True,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.2,
        apply_spec_augment=False,
        classifier_proj_size=16,
        num_labels=len(LABELS),
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


def evaluate(model, loader, device):
    model.eval()
    hits, seen = 0, 0
    for batch in loader:
        with torch.no_grad():
            logits = model(input_values=batch["input_values"].to(device)).logits
        torch_xla.sync()
        hits += (logits.argmax(-1).cpu() == batch["labels"]).sum().item()
        seen += len(batch["labels"])
    model.train()
    return hits / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    set_seed(args.seed)
    accelerator = Accelerator(gradient_accumulation_steps=args.accumulate)
    train = DataLoader(HiveClips(args.clips, seed=1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(HiveClips(8, seed=2), batch_size=args.batch_size)

    model = make_model()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=args.lr, momentum=0.9)
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, args.epochs * len(train) + 1)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    device = accelerator.device

    model.train()
    for epoch in range(args.epochs):
        losses = []
        for batch in train:
            batch = {k: v.to(device) for k, v in batch.items()}
            with accelerator.accumulate(model):
                out = model(**batch)
                accelerator.backward(out.loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(out.loss.detach())
            if accelerator.sync_gradients:
                torch_xla.sync()
        mean = torch.stack(losses).mean().item()
        acc = evaluate(model, valid, device)
        accelerator.print(f"epoch {epoch}: loss {mean:.4f}  valid accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
