import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

HIST, HORIZON, CH = 24, 6, 4


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1, self.w2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.w2(torch.relu(self.w1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.dk = h, d // h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = FeedForward(d)

    def attend(self, x):
        b, t, d = x.shape
        split = lambda z: z.view(b, t, self.h, self.dk).transpose(1, 2)
        q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
        w = torch.softmax(q @ k.transpose(-2, -1) * self.dk ** -0.5, -1)
        return self.wo((w @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        x = x + self.ff(self.norm2(x))
        return x


class Forecaster(nn.Module):
    def __init__(self, d=24, layers=2):
        super().__init__()
        self.inp = nn.Linear(CH, d)
        self.pos = nn.Parameter(torch.randn(1, HIST, d) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(d, 3) for _ in range(layers))
        self.out = nn.Linear(d, HORIZON * CH)

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        std = x.std(1, keepdim=True) + 1e-5
        z = self.inp((x - mean) / std) + self.pos
        for l in self.layers:
            z = l(z)
        y = self.out(z[:, -1]).view(-1, HORIZON, CH)
        return y * std + mean


def series(bs):
    t = torch.arange(HIST + HORIZON).float()
    f = torch.rand(bs, 1, CH) + 0.1
    s = torch.sin(t[None, :, None] * f) + 0.1 * torch.randn(bs, HIST + HORIZON, CH)
    return s[:, :HIST], s[:, HIST:]


def main():
    torch.manual_seed(4)
    dev = xm.xla_device()
    model = Forecaster().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i in range(5):
        x, y = (v.to(dev) for v in series(8))
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt, barrier=False)
        xm.mark_step()
    print("final mse", loss.item())


main()
