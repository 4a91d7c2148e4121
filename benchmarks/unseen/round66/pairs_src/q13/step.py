"""DDPM on 16x16 weather-radar tiles, conditioned on lead time."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


def upsample2x(x):
    b, c, h, w = x.shape
    return x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2).reshape(b, c, 2 * h, 2 * w)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, emb):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.emb = nn.Linear(emb, c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(e))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(h))


class TinyUNet(nn.Module):
    def __init__(self, ch=8, emb=16):
        super().__init__()
        self.emb_dim = emb
        self.time = nn.Linear(emb, emb)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.down = ResBlock(ch, 2 * ch, emb)
        self.mid = ResBlock(2 * ch, 2 * ch, emb)
        self.up = ResBlock(3 * ch, ch, emb)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        e = self.time(timestep_embedding(t, self.emb_dim))
        h0 = self.inp(x)
        h = self.down(F.avg_pool2d(h0, 2), e)
        h = self.mid(h, e)
        h = upsample2x(h)
        return self.out(self.up(torch.cat([h, h0], 1), e))


class ModelEma:
    def __init__(self, model, decay=0.995):
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1.0 - self.decay)


class Trainer:
    def __init__(self, steps=9, batch=4, T=200):
        self.device = torch_xla.device()
        self.steps, self.batch = steps, batch
        self.model = TinyUNet().to(self.device)
        self.ema = ModelEma(self.model)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        betas = torch.linspace(1e-4, 0.02, T)
        self.abar = torch.cumprod(1 - betas, 0).to(self.device)
        self.T = T

    def loss(self, x0):
        t = torch.randint(self.T, (x0.shape[0],)).to(self.device)
        noise = torch.randn(x0.shape).to(self.device)
        a = self.abar[t][:, None, None, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return F.mse_loss(self.model(xt, t), noise)

    def train_step(self, x0):
        self.opt.zero_grad()
        loss = self.loss(x0)
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        return loss

    def fit(self):
        xm.mark_step()
        for step in range(self.steps):
            tile = torch.rand(self.batch, 1, 16, 16).to(self.device) * 2 - 1
            loss = self.train_step(tile)
            self.ema.update(self.model)
            if step % 3 == 0:
                xm.add_step_closure(lambda s, l: print(s, l.item(), flush=True), args=(step, loss))


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer().fit()
