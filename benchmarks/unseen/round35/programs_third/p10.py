"""Per-residue secondary-structure tagging on sequence windows, run through accelerate."""
import argparse
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy
from transformers import default_data_collator, get_linear_schedule_with_warmup

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
PAD, UNKNOWN, NUM_STATES = 0, -100, 3
HELIX_LIKES, SHEET_LIKES = "AELMQKRH", "VIYFWTC"


class Chains(Dataset):
    """Random chains whose residues favour the state of the segment they belong to."""

    def __init__(self, count, max_length, seed):
        rng = np.random.default_rng(seed)
        self.max_length = max_length
        self.chains = [self._sample(rng) for _ in range(count)]

    def _sample(self, rng):
        length = int(rng.integers(self.max_length // 3, self.max_length + 1))
        residues, states = [], []
        while len(states) < length:
            state = int(rng.integers(NUM_STATES))
            preferred = (HELIX_LIKES, SHEET_LIKES, "GPNDS")[state]
            for _ in range(int(rng.integers(3, 9))):
                pool = preferred if rng.random() < 0.75 else RESIDUES
                residues.append(RESIDUES.index(pool[rng.integers(len(pool))]) + 1)
                states.append(state)
        states = np.asarray(states[:length])
        disordered = rng.random(length) < 0.05
        return np.asarray(residues[:length]), np.where(disordered, UNKNOWN, states)

    def __len__(self):
        return len(self.chains)

    def __getitem__(self, i):
        residues, states = self.chains[i]
        input_ids = np.full(self.max_length, PAD, np.int64)
        labels = np.full(self.max_length, UNKNOWN, np.int64)
        input_ids[: len(residues)] = residues
        labels[: len(states)] = states
        return {"input_ids": input_ids, "labels": labels}


class WindowTagger(nn.Module):
    def __init__(self, width=32, radius=2):
        super().__init__()
        self.radius = radius
        self.embed = nn.Embedding(len(RESIDUES) + 1, width, padding_idx=PAD)
        self.hidden = nn.Linear(width * (2 * radius + 1), 2 * width)
        self.head = nn.Linear(2 * width, NUM_STATES)

    def forward(self, input_ids, labels):
        x = F.pad(self.embed(input_ids), (0, 0, self.radius, self.radius))
        shifts = [x[:, k : k + input_ids.shape[1]] for k in range(2 * self.radius + 1)]
        logits = self.head(torch.relu(self.hidden(torch.cat(shifts, dim=-1))))
        loss = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=UNKNOWN)
        return logits, loss


def build_metrics():
    return MetricCollection({
        "q3": MulticlassAccuracy(NUM_STATES, average="micro", ignore_index=UNKNOWN, validate_args=False),
    })


def run_epoch(accelerator, model, loader, optimizer, scheduler, metrics, mean_loss, epoch, log_every):
    model.train()
    for step, batch in enumerate(loader, start=1):
        logits, loss = model(**batch)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

        mean_loss.update(loss.detach())
        metrics.update(logits.detach().argmax(dim=-1), batch["labels"])
        xm.mark_step()

        if step % log_every == 0:
            q3 = metrics.compute()["q3"].item()
            print(f"epoch {epoch}  step {step:3d}  loss {mean_loss.compute().item():.4f}  q3 {q3:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--chains", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=48)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--log-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()

    set_seed(args.seed)
    accelerator = Accelerator()
    train_set = Chains(args.chains, args.max_length, args.seed)
    loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, drop_last=True, collate_fn=default_data_collator
    )
    model = WindowTagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    total = args.epochs * (args.chains // args.batch_size)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=4, num_training_steps=total + 1)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    metrics = build_metrics().to(accelerator.device)
    mean_loss = MeanMetric().to(accelerator.device)
    for epoch in range(1, args.epochs + 1):
        run_epoch(accelerator, model, loader, optimizer, scheduler, metrics, mean_loss, epoch, args.log_every)
        metrics.reset()
        mean_loss.reset()


if __name__ == "__main__":
    main()
