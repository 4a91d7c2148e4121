"""Churn model on a transaction log that is read in chunks: embeddings for codes, a small MLP on top."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

CODES = {"region": 40, "merchant": 500, "plan": 6}
COUNTS = ["visits", "tickets", "days_since_order", "basket_cents"]
ROWS_PER_CHUNK = 64
CHUNKS = 50


def make_csv(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "region": rng.integers(0, CODES["region"], rows),
        "merchant": np.minimum(rng.zipf(1.6, rows), CODES["merchant"] - 1),
        "plan": rng.integers(0, CODES["plan"], rows),
        "visits": rng.geometric(0.035, rows),
        "tickets": rng.poisson(1.5, rows),
        "days_since_order": rng.integers(0, 365, rows),
        "basket_cents": rng.lognormal(7.6, 1.0, rows).astype(np.int64),
    })
    score = 0.01 * frame["days_since_order"] - 0.03 * frame["visits"] + 0.4 * frame["tickets"] + 0.2 * (frame["plan"] == 2)
    p = 1 / (1 + np.exp(-(score - score.mean())))
    frame["churned"] = (rng.uniform(size=rows) < p).astype(int)
    return frame.to_csv(index=False)


def shrink(frame):
    """Smaller columns: less host memory and less to send."""
    for name in frame.columns:
        frame[name] = pd.to_numeric(frame[name], downcast="integer")
    return frame


class ChunkStream:
    """Iterates over a CSV file; every chunk is one batch."""

    def __init__(self, text, rows):
        self.text, self.rows = text, rows
        self.batch_size = rows

    def __len__(self):
        return CHUNKS

    def __iter__(self):
        for chunk in pd.read_csv(io.StringIO(self.text), chunksize=self.rows):
            chunk = shrink(chunk.sample(frac=1.0, random_state=0))
            batch = {name: torch.from_numpy(chunk[name].to_numpy().copy()) for name in chunk.columns}
            yield batch


class ChurnNet(nn.Module):
    def __init__(self, dim=8, width=32):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in CODES.items()})
        self.norm = nn.LayerNorm(len(COUNTS))
        self.mlp = nn.Sequential(
            nn.Linear(dim * len(CODES) + len(COUNTS), width), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1),
        )

    def forward(self, batch):
        codes = [self.tables[name](batch[name].long()) for name in CODES]
        counts = torch.stack([torch.log1p(batch[name].float()) for name in COUNTS], dim=1)
        return self.mlp(torch.cat(codes + [self.norm(counts)], dim=1)).squeeze(1)


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    stream = ChunkStream(make_csv(ROWS_PER_CHUNK * CHUNKS, seed=5), ROWS_PER_CHUNK)
    loader = pl.MpDeviceLoader(stream, device)

    net = ChurnNet().to(device)
    decay = [p for p in net.mlp.parameters() if p.ndim > 1]
    ids = {id(p) for p in decay}
    rest = [p for p in net.parameters() if id(p) not in ids]
    opt = torch.optim.AdamW([
        {"params": decay, "weight_decay": 0.01},
        {"params": rest, "weight_decay": 0.0},
    ], lr=3e-3)

    seen = torch.zeros((), device=device)
    hits = torch.zeros((), device=device)
    loss_sum = torch.zeros((), device=device)
    for step, batch in enumerate(loader):
        logits = net(batch)
        target = batch["churned"].float()
        loss = F.binary_cross_entropy_with_logits(logits, target)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        with torch.no_grad():
            loss_sum += loss.detach()
            hits += ((logits > 0).float() == target).float().sum()
            seen += target.numel()
        if (step + 1) % 10 == 0:
            torch_xla.sync()
            print(f"chunk {step + 1:3d} loss {loss_sum.item() / (step + 1):.4f} acc {(hits / seen).cpu().item():.3f}")


if __name__ == "__main__":
    main()
