"""Click-through-rate model: DeepFM style network, progressive validation with torchmetrics.

Every batch is scored before it is learned from, the usual setup for streaming ads data.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torchmetrics import MeanMetric, MeanSquaredError, MetricCollection
from torchmetrics.classification import BinaryAUROC

FIELDS = (50, 20, 200, 7, 12)
DENSE = 4
BATCH = 64
STEPS = 48
LOG_EVERY = 4


class ClickStream:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.effect = [self.rng.normal(0, 0.8, n) for n in FIELDS]
        self.cross = self.rng.normal(0, 0.8, (FIELDS[0], FIELDS[3]))
        self.w = self.rng.normal(0, 0.5, DENSE)

    def batch(self, n):
        cats = np.stack([np.minimum(self.rng.zipf(1.4, n) - 1, c - 1) for c in FIELDS], axis=1)
        dense = self.rng.lognormal(0, 0.6, (n, DENSE))
        score = -1.2 + np.log1p(dense) @ self.w
        score += sum(e[cats[:, i]] for i, e in enumerate(self.effect)) * 0.6
        score += self.cross[cats[:, 0], cats[:, 3]]
        click = self.rng.random(n) < 1 / (1 + np.exp(-score))
        return (torch.from_numpy(cats), torch.from_numpy(dense.astype(np.float32)),
                torch.from_numpy(click.astype(np.int64)))


class DeepFM(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.register_buffer("offset", torch.tensor((0,) + FIELDS[:-1]).cumsum(0))
        self.first = nn.Embedding(sum(FIELDS), 1)
        self.emb = nn.Embedding(sum(FIELDS), dim)
        nn.init.normal_(self.emb.weight, std=0.05)
        self.dense = nn.Linear(DENSE, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim * (len(FIELDS) + 1), 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

    def forward(self, cats, dense):
        idx = cats + self.offset
        v = torch.cat([self.emb(idx), self.dense(torch.log1p(dense)).unsqueeze(1)], dim=1)
        linear = self.first(idx).sum(dim=(1, 2))
        fm = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(-1)
        return linear + fm + self.mlp(v.flatten(1)).squeeze(-1)


def build_metrics(device):
    quality = MetricCollection({
        "auroc": BinaryAUROC(),
        "brier": MeanSquaredError(),
    })
    return quality.to(device), MeanMetric().to(device)


def main():
    torch.manual_seed(29)
    device = torch_xla.device()
    stream = ClickStream(seed=29)
    model = DeepFM().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    quality, mean_loss = build_metrics(device)
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        cats, dense, click = (x.to(device) for x in stream.batch(BATCH))

        model.eval()
        with torch.no_grad():
            prob = model(cats, dense).sigmoid()
        quality.update(prob, click)

        model.train()
        opt.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(cats, dense), click.float())
        loss.backward()
        xm.optimizer_step(opt)
        mean_loss.update(loss.detach())
        torch_xla.sync()

        if step % LOG_EVERY == 0:
            scores = {k: v.item() for k, v in quality.compute().items()}
            line = " ".join(f"{k} {v:.4f}" for k, v in scores.items())
            print(f"step {step:3d} loss {mean_loss.compute().item():.4f} {line}")
            mean_loss.reset()


if __name__ == "__main__":
    main()
