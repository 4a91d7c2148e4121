import torch
from torch import nn
import torch.nn.functional as F
import torch_xla


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.left = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0)))


class TemporalBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.a = CausalConv(ch, ch, 3, dilation)
        self.b = CausalConv(ch, ch, 3, dilation)

    def forward(self, x):
        h = self.b(F.relu(self.a(x)))
        return x + F.relu(h)


class TCN(nn.Module):
    def __init__(self, features, ch=12, levels=3, horizon=4):
        super().__init__()
        self.proj = nn.Conv1d(features, ch, 1)
        self.blocks = nn.Sequential(*[TemporalBlock(ch, 2 ** i) for i in range(levels)])
        self.head = nn.Linear(ch, horizon)

    def forward(self, x):
        h = self.blocks(self.proj(x.transpose(1, 2)))
        return self.head(h[:, :, -1])


class LoadData:
    """Synthetic hourly load with two calendar covariates."""

    def __init__(self, n=400, window=24, horizon=4):
        t = torch.arange(n, dtype=torch.float32)
        load = torch.sin(t / 24 * 6.283) + 0.3 * torch.sin(t / 168 * 6.283) + 0.05 * torch.randn(n)
        self.x = torch.stack([load, (t % 24) / 24, ((t // 24) % 7) / 7], dim=1)
        self.window, self.horizon = window, horizon

    def sample(self, bs):
        starts = torch.randint(0, len(self.x) - self.window - self.horizon, (bs,)).tolist()
        x = torch.stack([self.x[s:s + self.window] for s in starts])
        y = torch.stack([self.x[s + self.window:s + self.window + self.horizon, 0] for s in starts])
        return x, y


def main(iters=12, bs=16):
    torch.manual_seed(23)
    device = torch_xla.device()
    data = LoadData()
    net = TCN(3).to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.9)
    ema = None
    for it in range(iters):
        x, y = data.sample(bs)
        pred = net(x.to(device))
        loss = F.smooth_l1_loss(pred, y.to(device))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        if it % 4 == 3:
            value = loss.item()
            ema = value if ema is None else 0.7 * ema + 0.3 * value
            print(f"{it + 1:3d} loss {value:.4f} ema {ema:.4f}")


if __name__ == "__main__":
    main()
