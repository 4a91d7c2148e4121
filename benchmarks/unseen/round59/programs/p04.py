import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Click model over an event log (DLRM-like): a few categorical ids plus counters,
# pairwise interactions of the embeddings.
CATEGORICAL = {"user_bucket": 200, "item": 500, "category": 24, "device_type": 5}
COUNTERS = ["days_since_last", "views_7d", "cart_adds", "price_cents", "n_reviews", "session_pos"]
KNOWN = {"days_since_last": 0.985, "views_7d": 0.99, "cart_adds": 0.992,
         "price_cents": 0.995, "n_reviews": 0.985, "session_pos": 0.99}
BATCH = 64
EMB = 8
STEPS = 48


class EventLog:
    """Yields raw events as the log reader gives them: one dict per impression."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.item_w = self.rng.normal(size=CATEGORICAL["item"])
        self.user_w = self.rng.normal(size=CATEGORICAL["user_bucket"])

    def event(self):
        r = self.rng
        e = {name: int(r.integers(n)) for name, n in CATEGORICAL.items()}
        raw = {
            "days_since_last": int(r.geometric(0.1)),
            "views_7d": int(r.poisson(3)),
            "cart_adds": int(r.poisson(0.4)),
            "price_cents": int(np.exp(r.normal(7.5, 1.0))),
            "n_reviews": int(r.geometric(0.02)),
            "session_pos": int(r.integers(1, 40)),
        }
        for name, value in raw.items():
            e[name] = value if r.random() < KNOWN[name] else None
        logit = (self.item_w[e["item"]] + self.user_w[e["user_bucket"]]
                 + 0.5 * np.log1p(raw["cart_adds"]) - 0.03 * raw["session_pos"])
        e["clicked"] = int(r.random() < 1 / (1 + np.exp(-logit)))
        return e

    def __iter__(self):
        while True:
            yield self.event()


def batches(log):
    rows = []
    for event in log:
        rows.append(event)
        if len(rows) == BATCH:
            yield pd.DataFrame(rows)
            rows = []


def to_device(frame, device):
    ids = torch.from_numpy(frame[list(CATEGORICAL)].to_numpy(dtype=np.int64, copy=True)).to(device)
    dense = {}
    for name in COUNTERS:
        col = frame[name].fillna(0)
        dense[name] = torch.from_numpy(col.to_numpy(copy=True)).to(device)
    label = torch.from_numpy(frame["clicked"].to_numpy(dtype=np.float32, copy=True)).to(device)
    return ids, dense, label


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, EMB) for n in CATEGORICAL.values())
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)
        self.bottom = nn.Sequential(nn.Linear(len(COUNTERS), 32), nn.ReLU(), nn.Linear(32, EMB))
        n_vec = len(CATEGORICAL) + 1
        pairs = n_vec * (n_vec - 1) // 2
        self.register_buffer("tri", torch.tensor(
            [i * n_vec + j for i in range(n_vec) for j in range(i)], dtype=torch.long))
        self.top = nn.Sequential(nn.Linear(EMB + pairs, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ids, dense):
        cols = [torch.log1p(dense[name].float()) for name in COUNTERS]
        d = self.bottom(torch.stack(cols, dim=1) * 0.25)
        vecs = torch.stack([d] + [t(ids[:, i]) for i, t in enumerate(self.tables)], dim=1)
        inter = torch.bmm(vecs, vecs.transpose(1, 2)).flatten(1)
        inter = inter.index_select(1, self.tri)
        return self.top(torch.cat([d, inter], dim=1)).squeeze(1)


class Calibration:
    """Ratio of predicted to observed clicks, kept on the device."""

    def __init__(self, device):
        self.pred = torch.zeros((), device=device)
        self.true = torch.zeros((), device=device)

    @torch.no_grad()
    def update(self, logits, label):
        self.pred += torch.sigmoid(logits).sum()
        self.true += label.sum()

    def value(self):
        return self.pred.item() / max(self.true.item(), 1.0)


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    model = ClickModel().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    calib = Calibration(device)
    xm.mark_step()

    stream = batches(EventLog(seed=4))
    for step in range(STEPS):
        ids, dense, label = to_device(next(stream), device)
        logits = model(ids, dense)
        loss = F.binary_cross_entropy_with_logits(logits, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        calib.update(logits.detach(), label)
        xm.mark_step()
        if (step + 1) % 12 == 0:
            print(f"step {step + 1:3d} logloss {loss.item():.4f} calibration {calib.value():.3f}")


if __name__ == "__main__":
    main()
