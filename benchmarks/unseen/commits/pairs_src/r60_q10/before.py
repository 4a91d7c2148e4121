"""Speech denoising with a small time-domain masking network (learned filterbank)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FILTERS, KERNEL, CHANNELS, HIDDEN, SAMPLES, BATCH = 16, 16, 12, 16, 512, 4


class GlobalNorm(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        mean = x.mean(dim=(1, 2), keepdim=True)
        var = (x - mean).pow(2).mean(dim=(1, 2), keepdim=True)
        return (x - mean) / torch.sqrt(var + self.eps) * self.weight[:, None] + self.bias[:, None]


class Separable(nn.Module):
    def __init__(self, channels, hidden, dilation):
        super().__init__()
        self.expand = nn.Conv1d(channels, hidden, 1)
        self.act1, self.norm1 = nn.PReLU(), GlobalNorm(hidden)
        self.depth = nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden)
        self.act2 = nn.PReLU()
        self.reduce = nn.Conv1d(hidden, channels, 1)

    def forward(self, x):
        h = self.norm1(self.act1(self.expand(x)))
        h = self.act2(self.depth(h))
        return x + self.reduce(h)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(1, FILTERS, KERNEL, stride=KERNEL // 2, bias=False)
        self.norm = GlobalNorm(FILTERS)
        self.bottleneck = nn.Conv1d(FILTERS, CHANNELS, 1)
        self.blocks = nn.ModuleList([Separable(CHANNELS, HIDDEN, d) for d in (2,)])
        self.mask = nn.Conv1d(CHANNELS, FILTERS, 1)
        self.decoder = nn.ConvTranspose1d(FILTERS, 1, KERNEL, stride=KERNEL // 2, bias=False)

    def forward(self, wav):
        spec = F.relu(self.encoder(wav[:, None]))
        h = self.bottleneck(self.norm(spec))
        for block in self.blocks:
            h = block(h)
        return self.decoder(spec * torch.sigmoid(self.mask(h))).squeeze(1)


def si_snr(est, ref, eps=1e-6):
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    proj = (est * ref).sum(-1, keepdim=True) * ref / (ref.pow(2).sum(-1, keepdim=True) + eps)
    noise = est - proj
    ratio = proj.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps)
    return 10.0 * torch.log10(ratio + eps)


class Mixtures:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def batch(self):
        t = np.arange(SAMPLES) / 8000.0
        f0 = self.rng.uniform(80, 300, (BATCH, 1))
        clean = sum(np.sin(2 * math.pi * k * f0 * t) / k for k in (1, 2, 3))
        noisy = clean + 0.5 * self.rng.normal(size=clean.shape)
        return torch.from_numpy(noisy).float(), torch.from_numpy(clean).float()


def main(steps=10):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Denoiser().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)
    data = Mixtures(0)
    model.train()
    for step in range(steps):
        noisy, clean = (x.to(device) for x in data.batch())
        opt.zero_grad()
        loss = -si_snr(model(noisy), clean).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 5 == 4:
            print(step, f"si-snr {-loss.item():.3f} dB")


if __name__ == "__main__":
    main()
