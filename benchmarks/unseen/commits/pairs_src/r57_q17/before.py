import math
import os

os.environ.setdefault("XLA_IR_DEBUG", "1")
os.environ.setdefault("XLA_HLO_DEBUG", "1")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, device=t.device, dtype=torch.float32) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.emb = nn.Linear(emb, c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm(x)))
        h = h + self.emb(F.silu(emb))[:, :, None, None]
        return self.conv2(F.silu(h)) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, ch=8, emb=16):
        super().__init__()
        self.ch = ch
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.conv_in = nn.Conv2d(3, ch, 3, padding=1)
        self.down = ResBlock(ch, ch, emb)
        self.pool = nn.AvgPool2d(2)
        self.mid = ResBlock(ch, ch, emb)
        self.up = nn.ConvTranspose2d(ch, ch, 2, stride=2)
        self.out_block = ResBlock(2 * ch, ch, emb)
        self.conv_out = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x, t):
        emb = self.time(timestep_embedding(t, self.ch))
        h0 = self.down(self.conv_in(x), emb)
        h1 = self.mid(self.pool(h0), emb)
        h = self.out_block(torch.cat([self.up(h1), h0], 1), emb)
        return self.conv_out(F.silu(h))


class GaussianDiffusion(nn.Module):
    def __init__(self, model, timesteps=100):
        super().__init__()
        self.model = model
        self.timesteps = timesteps
        s = 0.008
        x = torch.linspace(0, timesteps, timesteps + 1, dtype=torch.float64)
        ac = torch.cos((x / timesteps + s) / (1 + s) * math.pi * 0.5) ** 2
        ac = (ac / ac[0])[1:].clamp(1e-5, 1.0)
        self.register_buffer("sqrt_ac", ac.sqrt().float())
        self.register_buffer("sqrt_1mac", (1 - ac).sqrt().float())
        snr = ac / (1 - ac)
        weight = snr.clamp(max=5.0) / snr
        self.register_buffer("loss_weight", weight.float())

    @staticmethod
    def extract(a, t):
        return a.gather(0, t)[:, None, None, None]

    def q_sample(self, x0, t, noise):
        return self.extract(self.sqrt_ac, t) * x0 + self.extract(self.sqrt_1mac, t) * noise

    def forward(self, x0):
        t = torch.randint(0, self.timesteps, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        out = self.model(self.q_sample(x0, t, noise), t)
        target = noise
        loss = F.mse_loss(out, target, reduction="none").flatten(1).mean(1)
        return (loss * self.loss_weight.gather(0, t)).mean()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    diffusion = GaussianDiffusion(UNet()).to(device)
    opt = torch.optim.SGD(diffusion.parameters(), lr=1e-2, momentum=0.9)
    data = torch.rand(5, 4, 3, 16, 16) * 2 - 1
    torch_xla.sync()
    for step in range(5):
        x = data[step].to(device)
        opt.zero_grad(set_to_none=True)
        loss = diffusion(x)
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
