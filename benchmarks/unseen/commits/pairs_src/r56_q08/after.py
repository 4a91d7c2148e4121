"""Pixel-space denoising diffusion with a two-level U-Net."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ResBlock(nn.Module):
    def __init__(self, cin, cout, temb):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.temb = nn.Linear(temb, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.short = nn.Conv2d(cin, cout, 1, bias=False) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.temb(F.silu(t))[:, :, None, None]
        return self.short(x) + self.conv2(F.silu(h))


class Downsample(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv = nn.Conv2d(ch, ch, 3, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


class Upsample(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return self.conv(x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3))


class UNet(nn.Module):
    def __init__(self, ch=8, temb=16):
        super().__init__()
        self.temb_dim = temb
        self.time = nn.Linear(temb, temb)
        self.conv_in = nn.Conv2d(3, ch, 3, padding=1)
        self.res_down = ResBlock(ch, ch, temb)
        self.down = Downsample(ch)
        self.mid = ResBlock(ch, 2 * ch, temb)
        self.up = Upsample(2 * ch)
        self.res_up = ResBlock(3 * ch, ch, temb)
        self.conv_out = nn.Conv2d(ch, 3, 3, padding=1)

    def time_embedding(self, t):
        half = self.temb_dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
        ang = t[:, None].float() * freqs[None]
        return self.time(torch.cat([ang.sin(), ang.cos()], 1))

    def forward(self, x, t):
        temb = self.time_embedding(t)
        h0 = self.res_down(self.conv_in(x), temb)
        h = self.mid(self.down(h0), temb)
        h = self.res_up(torch.cat([self.up(h), h0], 1), temb)
        return self.conv_out(F.silu(h))


class Diffusion:
    def __init__(self, steps, device):
        beta = torch.linspace(1e-4, 0.02, steps)
        self.abar = torch.cumprod(1 - beta, 0).to(device)

    def loss(self, model, x, t, noise):
        abar = self.abar[t][:, None, None, None]
        alpha, sigma = abar.sqrt(), (1 - abar).sqrt()
        pred = model(alpha * x + sigma * noise, t)
        return F.mse_loss(pred, alpha * noise - sigma * x)


def build_optimizer(model, lr=0.02, weight_decay=1e-4):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = UNet().to(device)
    diffusion = Diffusion(200, device)
    opt = build_optimizer(model)
    for step in range(4):
        x = torch.randn(4, 3, 16, 16).clamp(-1, 1).to(device)
        noise = torch.randn(4, 3, 16, 16).to(device)
        t = torch.randint(0, 200, (4,)).to(device)
        loss = diffusion.loss(model, x, t, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    print(loss.item())


if __name__ == "__main__":
    main()
