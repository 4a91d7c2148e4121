import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

INPUT = 48
HORIZON = 12
STATIONS = 10


class Stack(nn.Module):
    """One N-HiTS block: pool, MLP, and coefficients spread over the horizon."""

    def __init__(self, pool, n_coef, width=20):
        super().__init__()
        self.pool = pool
        self.n_coef = n_coef
        self.fc1 = nn.Linear(INPUT // pool, width)
        self.fc2 = nn.Linear(width, width)
        self.backcast = nn.Linear(width, INPUT // pool)
        self.forecast = nn.Linear(width, n_coef)

    def forward(self, x):
        h = F.avg_pool1d(x.unsqueeze(1), self.pool, self.pool).squeeze(1)
        h = F.relu(self.fc1(h))
        h = F.relu(self.fc2(h))
        back = self.backcast(h).repeat_interleave(self.pool, dim=1)
        fore = self.forecast(h).repeat_interleave(HORIZON // self.n_coef, dim=1)
        return back, fore


class NHiTS(nn.Module):
    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleList([Stack(8, 2), Stack(4, 4), Stack(1, 12)])

    def forward(self, x):
        level = x[:, -1:]
        residual = x - level
        total = torch.zeros(x.shape[0], HORIZON, device=x.device)
        for stack in self.stacks:
            back, fore = stack(residual)
            residual = residual - back
            total = total + fore
        return total + level


def masked_loss(pred, target, mask, beta=0.5):
    err = F.smooth_l1_loss(pred, target, reduction="none", beta=beta)
    return (err * mask).sum() / mask.sum().clamp_min(1.0)


def river_levels(gen):
    t = torch.arange(INPUT + HORIZON) / 12.0
    phase = torch.rand(STATIONS, 1, generator=gen) * 6.28
    series = torch.sin(t + phase) + 0.1 * torch.randn(STATIONS, INPUT + HORIZON, generator=gen)
    mask = (torch.rand(STATIONS, HORIZON, generator=gen) > 0.15).float()
    return [v.to(DEVICE) for v in (series[:, :INPUT], series[:, INPUT:], mask)]


def main(steps=4):
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(33)
    model = NHiTS().to(DEVICE)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9)
    torch_xla.sync()

    losses = []
    for _ in range(steps):
        x, y, mask = river_levels(gen)
        loss = masked_loss(model(x), y, mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        torch_xla.sync()
    print([round(v.item(), 4) for v in losses])


if __name__ == "__main__":
    main()
