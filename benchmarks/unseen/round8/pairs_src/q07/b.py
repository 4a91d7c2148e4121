import copy, math
import torch, torch.nn as nn, torch.nn.functional as F
import xdump

B, TS, W = 4, 50, 8


def time_embed(t, dim=16):
    f = torch.exp(torch.arange(dim // 2, device=t.device) * (-math.log(10000.0) / (dim // 2 - 1)))
    a = t.float()[:, None] * f[None]
    return torch.cat([a.sin(), a.cos()], -1)


class Res(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
        self.t = nn.Linear(16, o)
        self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1)

    def forward(self, x, te):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(te))[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv2d(3, W, 3, padding=1)
        self.down, self.mid, self.up = Res(W, 2 * W), Res(2 * W, 2 * W), Res(3 * W, W)
        self.out = nn.Conv2d(W, 3, 3, padding=1)

    def forward(self, x, t):
        te = time_embed(t)
        h0 = self.inp(x)
        h = self.mid(self.down(F.avg_pool2d(h0, 2), te), te)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        return self.out(self.up(torch.cat([h, h0], 1), te))


xdump.seed(7)
dev = xdump.device()
net = UNet().to(dev)
ema = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
abar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TS), 0).to(dev)
data = torch.randn(2, B, 3, 8, 8).to(dev)
xdump.sync()


def update_ema(decay=0.995):
    with torch.no_grad():
        for pe, p in zip(ema.parameters(), net.parameters()):
            pe.mul_(decay).add_(p, alpha=1 - decay)


def step(i):
    x0 = data[i]
    t = torch.randint(0, TS, (B,), device=dev)
    eps = torch.randn_like(x0)
    a = abar[t][:, None, None, None]
    opt.zero_grad()
    pred = net(a.sqrt() * x0 + (1 - a).sqrt() * eps, t)
    loss = F.mse_loss(pred, eps)
    loss.backward()
    update_ema()
    opt.step()
    return loss


step(0)
xdump.sync()
loss = step(1)
named = list(net.named_parameters())
live = {"loss": loss}
live.update(named)
live.update(("ema." + n, p) for n, p in ema.named_parameters())
live.update(xdump.state_of(opt, named))
xdump.dump(live)
