"""Speech denoising with a small time-domain masking network (learned filterbank)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FILTERS, KERNEL, CHANNELS, HIDDEN, SAMPLES, BATCH = 16, 16, 12, 16, 512, 4


def zero_mean_ratio(est, ref, eps):
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    gain = torch.einsum("bt,bt->b", est, ref) / (torch.einsum("bt,bt->b", ref, ref) + eps)
    target = gain[:, None] * ref
    residual = target - est
    return target.square().sum(-1) / (residual.square().sum(-1) + eps)


def si_snr(est, ref, eps=1e-6):
    return torch.log(zero_mean_ratio(est, ref, eps) + eps) * (10.0 / math.log(10.0))


class Separable(nn.Module):
    """Inverted bottleneck: pointwise, depthwise, pointwise."""

    def __init__(self, channels, hidden, dilation):
        super().__init__()
        self.depth = nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden)
        self.expand = nn.Linear(channels, hidden)
        self.reduce = nn.Linear(hidden, channels)
        self.norm1 = nn.GroupNorm(1, hidden, eps=1e-5)
        self.act1, self.act2 = nn.PReLU(), nn.PReLU()

    def forward(self, x):
        h = self.act1(self.expand(x.transpose(1, 2)).transpose(1, 2))
        h = self.act2(self.depth(self.norm1(h)))
        return self.reduce(h.transpose(1, 2)).transpose(1, 2) + x


class MaskNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(1, FILTERS, eps=1e-5)
        self.bottleneck = nn.Conv1d(FILTERS, CHANNELS, 1)
        self.blocks = nn.Sequential(*[Separable(CHANNELS, HIDDEN, d) for d in (2,)])
        self.mask = nn.Conv1d(CHANNELS, FILTERS, 1)

    def forward(self, spec):
        return torch.sigmoid(self.mask(self.blocks(self.bottleneck(self.norm(spec)))))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.masker = MaskNet()
        self.encoder = nn.Conv1d(1, FILTERS, KERNEL, stride=KERNEL // 2, bias=False)
        self.decoder = nn.ConvTranspose1d(FILTERS, 1, KERNEL, stride=KERNEL // 2, bias=False)

    def forward(self, wav):
        spec = self.encoder(wav.unsqueeze(1)).relu()
        return self.decoder(self.masker(spec) * spec)[:, 0]


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
