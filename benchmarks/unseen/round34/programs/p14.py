"""Watch-time model for a video feed, trained from an event log that is read in chunks."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_USERS, N_ITEMS = 300, 500
CHUNK = 128
EPOCHS = 2
CONTEXT = ["age", "days_since_signup", "last_watch_sec", "n_followers"]


def export_log(n=CHUNK * 24, seed=0):
    """Stand-in for the warehouse export (same columns, same habits about missing values)."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "user": rng.integers(0, N_USERS, n),
        "item": rng.integers(0, N_ITEMS, n),
        "age": rng.integers(13, 80, n),
        "days_since_signup": rng.integers(0, 2000, n),
        "last_watch_sec": rng.integers(0, 600, n),
        "n_followers": rng.integers(0, 5000, n),
        "watch_sec": rng.gamma(2.0, 20.0, n).round(2),
    })
    text = df.astype({"age": object, "last_watch_sec": object, "n_followers": object})
    text.loc[rng.uniform(size=n) < 0.004, "age"] = ""
    text.loc[rng.uniform(size=n) < 0.007, "last_watch_sec"] = ""
    text.loc[rng.uniform(size=n) < 0.004, "n_followers"] = ""
    return text.to_csv(index=False)


class Chunks:
    """Iterate over the log without holding it in memory."""

    def __init__(self, text, rows):
        self.text, self.rows = text, rows

    def __iter__(self):
        for frame in pd.read_csv(io.StringIO(self.text), chunksize=self.rows):
            frame = frame.fillna({"age": 30, "last_watch_sec": 0, "n_followers": 0})
            yield {c: torch.from_numpy(frame[c].to_numpy().copy()) for c in frame.columns}


class WatchTime(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim)
        self.item = nn.Embedding(N_ITEMS, dim)
        self.bias = nn.Embedding(N_ITEMS, 1)
        self.register_buffer("shift", torch.tensor([40.0, 1000.0, 300.0, 2500.0]))
        self.register_buffer("spread", torch.tensor([20.0, 600.0, 180.0, 1500.0]))
        self.ctx = nn.Sequential(nn.Linear(len(CONTEXT), dim), nn.SiLU(), nn.Linear(dim, dim))
        self.head = nn.Sequential(nn.Linear(3 * dim, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, batch):
        cols = torch.stack([batch[c].float() for c in CONTEXT], dim=1)
        c = self.ctx((cols - self.shift) / self.spread)
        u, i = self.user(batch["user"]), self.item(batch["item"])
        out = self.head(torch.cat([u * i, u, c], dim=1)) + self.bias(batch["item"])
        return out.squeeze(1)


def pinball(pred, target, q=0.6):
    err = target - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    log = Chunks(export_log(), CHUNK)
    model = WatchTime().to(device)
    emb = [p for n, p in model.named_parameters() if n.split(".")[0] in ("user", "item", "bias")]
    rest = [p for n, p in model.named_parameters() if n.split(".")[0] not in ("user", "item", "bias")]
    opt = torch.optim.Adagrad([{"params": emb, "lr": 0.05}, {"params": rest, "lr": 0.01}])

    step = 0
    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        for chunk in log:
            batch = {k: v.to(device) for k, v in chunk.items()}
            target = torch.log1p(batch["watch_sec"].float())
            pred = model(batch)
            loss = pinball(pred, target) + 0.1 * F.mse_loss(pred, target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total = total + loss.detach()
            torch_xla.sync()
            step += 1
        print(f"epoch {epoch}: mean loss {total.item() / (step / (epoch + 1)):.4f} after {step} chunks")


if __name__ == "__main__":
    main()
