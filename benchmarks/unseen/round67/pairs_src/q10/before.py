"""Quantile forecasts of honey flow from hive telemetry with soft oblivious trees."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

FEATURES, TREES, DEPTH, BATCH = 10, 3, 3, 16
QUANTILES = (0.1, 0.5, 0.9)


class SoftForest(nn.Module):
    def __init__(self):
        super().__init__()
        self.select = nn.Parameter(torch.randn(TREES, FEATURES, DEPTH))
        self.threshold = nn.Parameter(0.3 * torch.randn(TREES, DEPTH))
        self.log_temp = nn.Parameter(torch.zeros(TREES, DEPTH))
        self.leaf = nn.Parameter(0.1 * torch.randn(TREES, 2 ** DEPTH, len(QUANTILES)))
        self.norm = nn.LayerNorm(FEATURES)

    def tree(self, x, t):
        weights = F.softmax(self.select[t], dim=0)
        feats = torch.matmul(x, weights)
        gates = torch.sigmoid((feats - self.threshold[t]) * torch.exp(-self.log_temp[t]))
        probs = torch.ones(x.size(0), 1, device=x.device)
        for d in range(DEPTH):
            g = gates[:, d:d + 1]
            probs = torch.cat([probs * g, probs * (1 - g)], dim=1)
        return torch.matmul(probs, self.leaf[t])

    def forward(self, x):
        x = self.norm(x)
        out = 0
        for t in range(TREES):
            out = out + self.tree(x, t)
        return out / TREES


def pinball(pred, y):
    losses = []
    for i, q in enumerate(QUANTILES):
        err = y - pred[:, i]
        losses.append(torch.where(err >= 0, q * err, (q - 1) * err).mean())
    return sum(losses) / len(losses)


def hives(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, FEATURES, generator=g)
    return x, x[:, 0].tanh() + 0.2 * torch.randn(BATCH, generator=g)


def main(save=None):
    torch.manual_seed(8)
    device = xm.xla_device()
    model = SoftForest().to(device).train()
    opt = torch.optim.RMSprop(model.parameters(), lr=5e-3, momentum=0.5)
    torch_xla.sync()
    for step in range(6):
        x, y = (t.to(device) for t in hives(step))
        opt.zero_grad()
        loss = pinball(model(x), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile"), loss.item())
    if save:
        torch.save({k: v.cpu() for k, v in model.state_dict().items()}, save)


if __name__ == "__main__":
    main(*sys.argv[1:])
