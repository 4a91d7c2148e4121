"""DeepFM click-through-rate model on synthetic impression logs, with running AUROC / calibration tracking."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

FIELD_SIZES = (500, 300, 40, 24, 12, 7)
NUM_DENSE = 4


class ImpressionLog(Dataset):
    """Impressions with hashed categorical fields, log-scaled counters and a click label."""

    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.fields = torch.stack(
            [(torch.rand(size, generator=g) ** 2 * n).long() for n in FIELD_SIZES], dim=1)
        self.dense = torch.log1p(torch.rand(size, NUM_DENSE, generator=g) * 50)
        truth = torch.Generator().manual_seed(999)
        bias = [torch.randn(n, generator=truth) for n in FIELD_SIZES]
        coef = torch.randn(NUM_DENSE, generator=truth) * 0.4
        logit = sum(b[self.fields[:, i]] for i, b in enumerate(bias)) * 0.6 + self.dense @ coef - 1.5
        self.click = (torch.rand(size, generator=g) < torch.sigmoid(logit)).long()

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        return self.fields[i], self.dense[i], self.click[i]


class DeepFM(nn.Module):
    def __init__(self, field_sizes, num_dense, dim=8, hidden=(64, 32), dropout=0.1):
        super().__init__()
        offsets = torch.tensor([0, *field_sizes[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets)
        total = sum(field_sizes)
        self.first_order = nn.Embedding(total, 1)
        self.factors = nn.Embedding(total, dim)
        nn.init.normal_(self.factors.weight, std=0.05)
        self.dense_linear = nn.Linear(num_dense, 1)
        layers, width = [], len(field_sizes) * dim + num_dense
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU(), nn.Dropout(dropout)]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, fields, dense):
        idx = fields + self.offsets
        v = self.factors(idx)
        linear = self.first_order(idx).sum(dim=1) + self.dense_linear(dense)
        square_of_sum = v.sum(dim=1) ** 2
        sum_of_square = (v ** 2).sum(dim=1)
        fm = 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True)
        deep = self.deep(torch.cat([v.flatten(1), dense], dim=1))
        return (linear + fm + deep).squeeze(1)


class WarmupCosine:
    def __init__(self, optimizer, peak, warmup, total, floor=1e-5):
        self.optimizer, self.peak, self.warmup = optimizer, peak, warmup
        self.total, self.floor = total, floor
        self.t = 0

    def step(self):
        self.t += 1
        if self.t <= self.warmup:
            lr = self.peak * self.t / self.warmup
        else:
            frac = (self.t - self.warmup) / (self.total - self.warmup)
            lr = self.floor + (self.peak - self.floor) * 0.5 * (1 + math.cos(math.pi * frac))
        for group in self.optimizer.param_groups:
            group["lr"] = lr


class Tracker:
    """Metrics over everything that was scored since the run began."""

    def __init__(self, device):
        self.scores = MetricCollection({
            "auroc": BinaryAUROC(),
            "accuracy": BinaryAccuracy(validate_args=False),
        }).to(device)
        self.loss = MeanMetric(nan_strategy="disable").to(device)
        self.predicted_ctr = MeanMetric(nan_strategy="disable").to(device)
        self.observed_ctr = MeanMetric(nan_strategy="disable").to(device)

    def update(self, logits, click, loss):
        prob = torch.sigmoid(logits.detach())
        self.scores.update(prob, click)
        self.loss.update(loss.detach())
        self.predicted_ctr.update(prob)
        self.observed_ctr.update(click.float())

    def report(self):
        out = {k: v.item() for k, v in self.scores.compute().items()}
        out["loss"] = self.loss.compute().item()
        out["calibration"] = (self.predicted_ctr.compute() / self.observed_ctr.compute()).item()
        return out


def main():
    torch.manual_seed(8)
    device = xm.xla_device()
    batch_size, log_every, max_steps = 128, 4, 60
    loader = DataLoader(ImpressionLog(batch_size * 30, seed=1), batch_size=batch_size, shuffle=True,
                        drop_last=True, generator=torch.Generator().manual_seed(2))
    model = DeepFM(FIELD_SIZES, NUM_DENSE).to(device)
    decay = [p for n, p in model.named_parameters() if "deep" in n and p.ndim > 1]
    rest = [p for n, p in model.named_parameters() if not ("deep" in n and p.ndim > 1)]
    optimizer = torch.optim.Adam([{"params": decay, "weight_decay": 1e-4}, {"params": rest}], lr=1e-3)
    schedule = WarmupCosine(optimizer, peak=1e-2, warmup=6, total=max_steps)
    tracker = Tracker(device)

    step = 0
    while step < max_steps:
        for fields, dense, click in loader:
            fields, dense, click = fields.to(device), dense.to(device), click.to(device)
            model.train()
            logits = model(fields, dense)
            loss = F.binary_cross_entropy_with_logits(logits, click.float())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0, foreach=False)
            schedule.step()
            optimizer.step()
            tracker.update(logits, click, loss)
            torch_xla.sync()
            step += 1
            if step % log_every == 0:
                report = tracker.report()
                print(f"step {step:3d}  " + "  ".join(f"{k} {v:.4f}" for k, v in report.items()))
            if step == max_steps:
                break


if __name__ == "__main__":
    main()
