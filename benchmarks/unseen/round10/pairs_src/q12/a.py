import torch
import torch.nn as nn
import torch_xla


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.pad = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)

    def forward(self, x):
        return self.conv(nn.functional.pad(x, (self.pad, 0)))


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.net = nn.Sequential(CausalConv(cin, cout, k, dilation), nn.ReLU(),
                                 CausalConv(cout, cout, k, dilation), nn.ReLU())
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return torch.relu(self.net(x) + self.skip(x))


class Forecaster(nn.Module):
    def __init__(self, features=4, channels=(8, 8), horizon=6, k=3):
        super().__init__()
        dims = (features,) + tuple(channels)
        self.tcn = nn.Sequential(*[TemporalBlock(a, b, k, 2 ** i)
                                   for i, (a, b) in enumerate(zip(dims, dims[1:]))])
        self.head = nn.Linear(channels[-1], horizon)

    def forward(self, x):
        return self.head(self.tcn(x)[:, :, -1])


def quantile_loss(pred, y, q=0.7):
    e = y - pred
    return torch.max(q * e, (q - 1) * e).mean()


def windows(steps, batch, length=24, horizon=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length + horizon).float()
    for _ in range(steps):
        f = torch.rand(batch, 4, 1, generator=g) * 0.5
        s = torch.sin(f * t) + 0.1 * torch.randn(batch, 4, length + horizon, generator=g)
        yield s[:, :, :length], s[:, 0, length:]


def build_optimizer(model, lr=2e-3, weight_decay=0.01):
    return torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)


def fit(steps=6):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Forecaster().to(device)
    opt = build_optimizer(model)
    for i, (x, y) in enumerate(windows(steps, 8)):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = quantile_loss(model(x), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if i % 2:
            print('step', i, 'pinball', loss.item())


if __name__ == '__main__':
    fit()
