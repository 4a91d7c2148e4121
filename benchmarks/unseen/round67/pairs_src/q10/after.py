"""Quantile forecasts of honey flow from hive telemetry with soft oblivious trees."""
import sys

import torch
import torch.nn as nn
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

    def forward(self, x):
        x = self.norm(x)
        feats = torch.einsum("bf,tfd->btd", x, self.select.softmax(dim=1))
        gates = torch.sigmoid((feats - self.threshold) * torch.exp(-self.log_temp))
        sides = torch.stack([gates, 1 - gates], dim=-1)
        probs = sides[:, :, 0]
        for d in range(1, DEPTH):
            probs = (sides[:, :, d, :, None] * probs[:, :, None, :]).flatten(2)
        return torch.einsum("btl,tlq->btq", probs, self.leaf).mean(dim=1)


def pinball(pred, y):
    q = torch.tensor(QUANTILES).to(pred.device)
    err = y[:, None] - pred
    return torch.where(err >= 0, q * err, (q - 1) * err).mean()


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
