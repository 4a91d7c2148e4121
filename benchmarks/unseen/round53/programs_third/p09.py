"""Click-through-rate model (DeepFM) on synthetic ad logs, progress tracked with torchmetrics."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryCalibrationError, BinaryF1Score

FIELDS = (40, 25, 60, 12, 7, 90)
N_DENSE = 4


class AdLog(torch.utils.data.IterableDataset):
    def __init__(self, rows, seed):
        self.rows, self.seed = rows, seed
        rng = np.random.default_rng(seed)
        self.effects = [rng.normal(scale=0.8, size=n) for n in FIELDS]
        self.dense_w = rng.normal(size=N_DENSE)

    def __iter__(self):
        rng = np.random.default_rng(self.seed + 1)
        for _ in range(self.rows):
            cat = np.array([min(n - 1, rng.geometric(4.0 / n) - 1) for n in FIELDS])
            dense = rng.normal(size=N_DENSE)
            logit = -1.0 + sum(e[c] for e, c in zip(self.effects, cat)) + dense @ self.dense_w
            logit += 0.7 * np.sin(cat[0] * cat[2])
            yield cat, dense.astype(np.float32), np.float32(rng.random() < 1 / (1 + np.exp(-logit)))


class DeepFM(nn.Module):
    def __init__(self, dim=8, hidden=(32, 16), dropout=0.1):
        super().__init__()
        offsets = np.concatenate([[0], np.cumsum(FIELDS)[:-1]])
        self.register_buffer("offsets", torch.tensor(offsets), persistent=False)
        self.emb = nn.Embedding(sum(FIELDS), dim)
        self.lin = nn.Embedding(sum(FIELDS), 1)
        self.dense_lin = nn.Linear(N_DENSE, 1)
        nn.init.normal_(self.emb.weight, std=0.05)
        nn.init.zeros_(self.lin.weight)
        layers, d = [], len(FIELDS) * dim + N_DENSE
        for h in hidden:
            layers += [nn.Linear(d, h), nn.ReLU(), nn.Dropout(dropout)]
            d = h
        self.mlp = nn.Sequential(*layers, nn.Linear(d, 1))

    def forward(self, cat, dense):
        ids = cat + self.offsets
        v = self.emb(ids)
        first = self.lin(ids).sum(1) + self.dense_lin(dense)
        second = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1, keepdim=True)
        deep = self.mlp(torch.cat([v.flatten(1), dense], 1))
        return (first + second + deep).squeeze(1)


def build_metrics(device):
    return MetricCollection({
        "acc": BinaryAccuracy(validate_args=False),
        "f1": BinaryF1Score(validate_args=False),
        "ece": BinaryCalibrationError(n_bins=10, norm="l1", validate_args=False),
    }, compute_groups=False).to(device)


class Progress:
    def __init__(self, device, every):
        self.metrics = build_metrics(device)
        self.loss = MeanMetric(nan_strategy="disable").to(device)
        self.every = every

    def update(self, logits, y, loss):
        self.metrics.update(logits.detach().sigmoid(), y.long())
        self.loss.update(loss.detach())

    def report(self, step):
        vals = self.metrics.compute()
        vals["loss"] = self.loss.compute()
        torch_xla.sync()
        print(f"step {step:3d} " + " ".join(f"{k} {v.item():.4f}" for k, v in sorted(vals.items())))


def main():
    torch.manual_seed(31)
    np.random.seed(31)
    device = torch_xla.device()
    batch, steps = 32, 48
    loader = torch.utils.data.DataLoader(AdLog(batch * steps, seed=31), batch_size=batch, drop_last=True)
    model = DeepFM().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-8)
    progress = Progress(device, every=3)

    model.train()
    for step, (cat, dense, y) in enumerate(loader, 1):
        cat, dense, y = cat.to(device), dense.to(device), y.to(device)
        logits = model(cat, dense)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        progress.update(logits, y, loss)
        torch_xla.sync()
        if step % progress.every == 0:
            progress.report(step)
    xm.wait_device_ops()


if __name__ == "__main__":
    main()
