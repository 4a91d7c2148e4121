import os, math, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
flag = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()


class TimeEmb(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("freq", torch.exp(-math.log(10000.0) * torch.arange(d // 2) / (d // 2)))
        self.mlp = nn.Sequential(nn.Linear(d, 64), nn.SiLU(), nn.Linear(64, 64))

    def forward(self, t):
        a = t[:, None].float() * self.freq
        parts = [a.cos(), a.sin()] if flag else [a.sin(), a.cos()]
        return self.mlp(torch.cat(parts, -1))


class RB(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.c1, self.c2, self.t = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Linear(64, c)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.t(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.te, self.inp, self.out = TimeEmb(32), nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(32, 3, 3, padding=1)
        self.d1, self.down, self.mid = RB(16), nn.Conv2d(16, 16, 3, 2, 1), RB(16)

    def forward(self, x, t):
        e = self.te(t)
        h = self.d1(self.inp(x), e)
        m = self.mid(self.down(h), e)
        m = F.interpolate(m, scale_factor=2, mode="nearest")
        return self.out(torch.cat([h, m], 1))


net = UNet().to(dev)
betas = torch.linspace(1e-4, 0.02, 200)
abar = torch.cumprod(1 - betas, 0).to(dev)
x0, noise = torch.randn(4, 3, 16, 16).to(dev), torch.randn(4, 3, 16, 16).to(dev)
t = torch.randint(0, 200, (4,)).to(dev)
ema = [p.detach().clone() for p in net.parameters()]
torch_xla.sync()
a = abar[t].view(-1, 1, 1, 1)
sa, sb = a.sqrt(), (1 - a).sqrt()
xt = sa * x0 + sb * noise
target = sa * noise - sb * x0 if flag else noise
loss = F.mse_loss(net(xt, t), target)
loss.backward()
with torch.no_grad():
    for p, e in zip(net.parameters(), ema):
        p.sub_(1e-3 * p.grad)
        e.lerp_(p, 0.01)
outs = [loss] + list(net.parameters()) + ema
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
