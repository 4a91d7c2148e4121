import copy
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def timestep_embedding(t, dim):
    half = dim // 2
    freq = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)
    arg = t.float()[:, None] * freq[None]
    return torch.cat([arg.cos(), arg.sin()], -1)


class Attention(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm = nn.GroupNorm(2, ch)
        self.qkv = nn.Conv2d(ch, 3 * ch, 1)
        self.out = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        attn = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(c), dim=-1)
        y = (attn @ v).transpose(1, 2)
        return x + self.out(y.reshape(b, c, h, w))


class ResBlock(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.norm1 = nn.GroupNorm(2, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1)
        self.time = nn.Linear(tdim, cout)

    def forward(self, x, emb):
        shift = self.time(F.silu(emb)).view(x.size(0), -1, 1, 1)
        h = shift + self.conv1(F.silu(self.norm1(x)))
        return self.conv2(F.silu(h)) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, ch=8, tdim=16):
        super().__init__()
        self.tdim = tdim
        self.time_mlp = nn.Linear(tdim, tdim)
        self.conv_in = nn.Conv2d(1, ch, 3, padding=1)
        self.down = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.mid = Attention(ch)
        self.up = ResBlock(2 * ch, ch, tdim)
        self.conv_out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        emb = self.time_mlp(timestep_embedding(t, self.tdim))
        h0 = self.conv_in(x)
        h1 = self.mid(self.down(h0))
        b, c, h, w = h1.shape
        h1 = h1.view(b, c, h, 1, w, 1).expand(-1, -1, -1, 2, -1, 2).reshape(b, c, 2 * h, 2 * w)
        return self.conv_out(F.silu(self.up(torch.cat([h1, h0], 1), emb)))


class Diffusion(nn.Module):
    def __init__(self, net, steps=100):
        super().__init__()
        self.net = net
        beta = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("alpha_bar", torch.cumprod(1 - beta, 0))

    def forward(self, x0, t, noise):
        x_t = self.coef(self.alpha_bar, t) * x0 + self.coef(1 - self.alpha_bar, t) * noise
        return (self.net(x_t, t) - noise).square().mean()

    @staticmethod
    def coef(table, t):
        return table.sqrt().gather(0, t)[:, None, None, None]


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


def batch(gen, bs=8, steps=100):
    x0 = torch.rand(bs, 1, 8, 8, generator=gen) * 2 - 1
    return x0, torch.randint(0, steps, (bs,), generator=gen), torch.randn(x0.shape, generator=gen)


def main(steps=5):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    device = torch_xla.device()
    model = Diffusion(UNet())
    if os.path.exists("init.pt"):
        model.load_state_dict(torch.load("init.pt"))
    ema = copy.deepcopy(model).to(device)
    model = model.to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for step in range(steps):
        x0, t, noise = (v.to(device) for v in batch(gen))
        loss = model(x0, t, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_ema(ema, model, 0.995)
        torch_xla.sync()
        print(step, f"{loss.item():.6f}")
    return model, ema


if __name__ == "__main__":
    main()
