"""ConvNeXt-like one-step surrogate for a 2D advection-diffusion solver (bf16 training, f32 master weights)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ChannelNorm(nn.Module):
    def __init__(self, c, eps=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(c, 1, 1))
        self.b = nn.Parameter(torch.zeros(c, 1, 1))
        self.eps = eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        d = x - mu
        y = d * torch.rsqrt(d.square().mean(1, keepdim=True) + self.eps)
        return y * self.g + self.b


class Mixer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 3, groups=c, bias=False)
        self.norm = ChannelNorm(c)
        self.up = nn.Conv2d(c, 2 * c, 1, bias=False)
        self.down = nn.Conv2d(2 * c, c, 1)
        self.gamma = nn.Parameter(torch.full((c, 1, 1), 0.1))

    def forward(self, x):
        h = self.dw(F.pad(x, (1, 1, 1, 1), mode="circular"))
        return x + self.gamma * self.down(F.gelu(self.up(self.norm(h)), approximate="tanh"))


class Surrogate(nn.Module):
    def __init__(self, c=8, depth=2):
        super().__init__()
        self.lift = nn.Conv2d(3, c, 1)
        self.mix = nn.ModuleList(Mixer(c) for _ in range(depth))
        self.norm = ChannelNorm(c)
        self.read = nn.Conv2d(c, 1, 1)

    def forward(self, u, vel):
        h = self.lift(torch.cat([u, vel], 1))
        for m in self.mix:
            h = m(h)
        return u + self.read(self.norm(h))


class MasterSGD:
    """Momentum SGD on f32 copies; the bf16 model is refreshed after each step."""

    def __init__(self, model, lr, momentum):
        self.params = list(model.parameters())
        self.master = [p.detach().float().clone() for p in self.params]
        self.buf = [torch.zeros_like(m) for m in self.master]
        self.lr, self.momentum = lr, momentum

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.params, self.master, self.buf):
            v.mul_(self.momentum).add_(p.grad.float())
            m.sub_(v, alpha=self.lr)
            p.copy_(m)
            p.grad = None


def relative_l2(pred, ref):
    e = (pred.float() - ref.float()).flatten(1)
    return (e.norm(dim=1) / (ref.float().flatten(1).norm(dim=1) + 1e-6)).mean()


def fields(rng, b=4, n=12):
    k = rng.normal(size=(b, 1, n, n))
    u = np.fft.ifft2(np.fft.fft2(k) * (np.abs(np.fft.fftfreq(n))[:, None] < 0.3)).real
    vel = np.broadcast_to(rng.uniform(-1, 1, (b, 2, 1, 1)), (b, 2, n, n))
    nxt = u - 0.1 * vel[:, :1] * np.gradient(u, axis=3) - 0.1 * vel[:, 1:] * np.gradient(u, axis=2)
    return [torch.from_numpy(np.ascontiguousarray(a, dtype=np.float32)) for a in (u, vel, nxt)]


def train(steps=4):
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    dev = torch_xla.device()
    model = Surrogate().to(dev, torch.bfloat16)
    opt = MasterSGD(model, lr=0.02, momentum=0.9)
    torch_xla.sync()
    for i in range(steps):
        u, vel, nxt = (t.to(dev, torch.bfloat16) for t in fields(rng))
        loss = relative_l2(model(u, vel), nxt)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.5f}")


if __name__ == "__main__":
    train()
