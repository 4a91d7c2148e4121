"""Click-through model (DLRM style) on daily log extracts."""
import pathlib

import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SPARSE = {"user": 200, "item": 120, "shop": 24, "hour": 24}
DENSE = ["views_7d", "carts_7d", "price_cents", "stock"]
SHARDS = pathlib.Path(__file__).parent / "shards"


def read_shard(path):
    df = pd.read_csv(path)
    df = df.fillna(0)
    return {
        "sparse": torch.from_numpy(df[list(SPARSE)].to_numpy()),
        "dense": torch.from_numpy(df[DENSE].to_numpy()),
        "label": torch.from_numpy(df["clicked"].to_numpy(dtype="float32")),
    }


def batches(shard, size):
    n = len(shard["label"]) // size * size
    for i in range(0, n, size):
        yield {k: v[i:i + size] for k, v in shard.items()}


def mlp(sizes, last_act=True):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if last_act or i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in SPARSE.values()])
        self.bottom = mlp([len(DENSE), 32, dim])
        n = len(SPARSE) + 1
        rows, cols = torch.tril_indices(n, n, offset=-1)
        self.register_buffer("pairs", rows * n + cols)
        self.top = mlp([dim + n * (n - 1) // 2, 48, 24, 1], last_act=False)

    def forward(self, sparse, dense):
        x = self.bottom(torch.log1p(dense.float().clamp(min=0)))
        vecs = [x] + [t(sparse[:, i]) for i, t in enumerate(self.tables)]
        v = torch.stack(vecs, 1)
        dots = torch.bmm(v, v.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([x, dots], 1)).squeeze(1)


class Meter:
    """Sums stay on the device; read once at the end of a shard."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.loss = 0.0
        self.pred = 0.0
        self.click = 0.0
        self.n = 0

    def update(self, loss, prob, label):
        b = label.shape[0]
        self.loss += loss.detach() * b
        self.pred += prob.detach().sum()
        self.click += label.sum()
        self.n += b

    def report(self):
        loss, pred, click = (float(t) for t in (self.loss, self.pred, self.click))
        return {"logloss": loss / self.n, "calibration": pred / max(click, 1.0)}


def main(batch_size=16, epochs=1):
    torch.manual_seed(21)
    device = xm.xla_device()
    model = DLRM().to(device)
    dense_params = [p for n, p in model.named_parameters() if not n.startswith("tables")]
    opts = [
        torch.optim.Adagrad(model.tables.parameters(), lr=0.05, foreach=False),
        torch.optim.Adam(dense_params, lr=2e-3, foreach=False),
    ]
    meter = Meter()
    torch_xla.sync()

    for _ in range(epochs):
        for path in sorted(SHARDS.glob("day*.csv")):
            meter.reset()
            for batch in batches(read_shard(path), batch_size):
                batch = {k: v.to(device) for k, v in batch.items()}
                logits = model(batch["sparse"], batch["dense"])
                loss = F.binary_cross_entropy_with_logits(logits, batch["label"])
                for o in opts:
                    o.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(dense_params, 5.0, foreach=False)
                for o in opts:
                    o.step()
                meter.update(loss, logits.sigmoid(), batch["label"])
                torch_xla.sync()
            print(path.name, meter.report())


if __name__ == "__main__":
    main()
