"""Sentence-pair similarity with a small ELECTRA encoder, trained through Accelerate."""
import random

import torch
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import ElectraConfig, ElectraModel, get_linear_schedule_with_warmup

BUCKETS = (8, 16, 24)
BATCH = 8
ACCUM = 2
VOCAB = 120
EPOCHS = 2


class Pairs(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            length = rng.randint(4, BUCKETS[-1])
            a = [rng.randrange(1, VOCAB) for _ in range(length)]
            keep = rng.random() < 0.5
            b = a[::-1] if keep else [rng.randrange(1, VOCAB) for _ in range(length)]
            self.rows.append((a, b, float(keep)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


class BucketBatches(Sampler):
    """Batches of one bucket each, in shuffled order, short batches dropped."""

    def __init__(self, data, batch_size, seed):
        self.batch_size = batch_size
        self.rng = random.Random(seed)
        self.groups = {b: [] for b in BUCKETS}
        for i, (a, _, _) in enumerate(data.rows):
            self.groups[bucket_of(len(a))].append(i)

    def __iter__(self):
        batches = []
        for idx in self.groups.values():
            idx = self.rng.sample(idx, len(idx))
            full = len(idx) - len(idx) % (ACCUM * self.batch_size)
            for i in range(0, full, ACCUM * self.batch_size):
                chunk = idx[i : i + ACCUM * self.batch_size]
                batches.append([chunk[j :: ACCUM] for j in range(ACCUM)])
        self.rng.shuffle(batches)
        for group in batches:
            yield from group

    def __len__(self):
        span = ACCUM * self.batch_size
        return sum(len(g) // span * ACCUM for g in self.groups.values())


def collate(rows):
    width = bucket_of(max(len(a) for a, _, _ in rows))
    ids = torch.zeros(2, len(rows), width, dtype=torch.long)
    for r, (a, b, _) in enumerate(rows):
        ids[0, r, : len(a)] = torch.tensor(a)
        ids[1, r, : len(b)] = torch.tensor(b)
    return {"a": ids[0], "b": ids[1], "y": torch.tensor([y for _, _, y in rows])}


class TwinEncoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = ElectraConfig(
            vocab_size=VOCAB,
            embedding_size=16,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=48,
            max_position_embeddings=BUCKETS[-1],
            attn_implementation="eager",
        )
        self.body = ElectraModel(config)
        self.scale = torch.nn.Parameter(torch.tensor(5.0))

    def embed(self, ids):
        mask = (ids != 0).long()
        h = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        m = mask.unsqueeze(-1).to(h.dtype)
        return F.normalize((h * m).sum(1) / m.sum(1), dim=-1)

    def forward(self, a, b):
        return self.scale * (self.embed(a) * self.embed(b)).sum(-1)


def main():
    set_seed(21)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUM)
    data = Pairs(170, seed=21)
    loader = DataLoader(data, batch_sampler=BucketBatches(data, BATCH, seed=21), collate_fn=collate)
    model = TwinEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, EPOCHS * len(loader) // ACCUM)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    device = accelerator.device

    model.train()
    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            with accelerator.accumulate(model):
                logits = model(batch["a"], batch["b"])
                loss = F.binary_cross_entropy_with_logits(logits, batch["y"])
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            total += loss.detach()
            torch_xla.sync()
        accelerator.print(f"epoch {epoch}: {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
