"""Two-speaker separation: learned encoder, dilated mask network, permutation-invariant SI-SNR."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SAMPLES, WIN, HOP, ENC, BOTTLE = 128, 8, 4, 12, 10
EPS = 1e-8


class GlobalNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1, channels, 1))
        self.b = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, x):
        mean = x.mean(dim=(1, 2), keepdim=True)
        var = (x - mean).pow(2).mean(dim=(1, 2), keepdim=True)
        return self.g * (x - mean) / torch.sqrt(var + EPS) + self.b


class TemporalBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.norm = GlobalNorm(channels)
        self.depth = nn.Conv1d(channels, channels, 3, padding=dilation,
                               dilation=dilation, groups=channels)
        self.point = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        return x + self.point(torch.tanh(self.depth(self.norm(x))))


class Separator(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Conv1d(1, ENC, WIN, stride=HOP, bias=False)
        self.squeeze = nn.Conv1d(ENC, BOTTLE, 1)
        self.blocks = nn.ModuleList([TemporalBlock(BOTTLE, d) for d in (2,)])
        self.masks = nn.Conv1d(BOTTLE, 2 * ENC, 1)
        self.dec = nn.ConvTranspose1d(ENC, 1, WIN, stride=HOP, bias=False)

    def forward(self, mix):
        w = F.relu(self.enc(mix.unsqueeze(1)))
        h = self.squeeze(w)
        for block in self.blocks:
            h = block(h)
        n, _, frames = w.shape
        m = torch.sigmoid(self.masks(h)).view(n, 2, ENC, frames)
        s = (m * w.unsqueeze(1)).view(n * 2, ENC, frames)
        return self.dec(s).view(n, 2, SAMPLES)


def si_snr(est, ref):
    est = est - est.mean(dim=-1, keepdim=True)
    ref = ref - ref.mean(dim=-1, keepdim=True)
    dot = (est * ref).sum(dim=-1, keepdim=True)
    proj = dot * ref / (ref.pow(2).sum(dim=-1, keepdim=True) + EPS)
    noise = est - proj
    ratio = proj.pow(2).sum(dim=-1) / (noise.pow(2).sum(dim=-1) + EPS)
    return 10 * torch.log10(ratio + EPS)


def pit_loss(est, ref):
    straight = si_snr(est, ref).mean(dim=-1)
    crossed = si_snr(est, ref.flip(1)).mean(dim=-1)
    return -torch.maximum(straight.mean(), crossed.mean())


class RMSPropCentered:
    def __init__(self, params, lr=1e-3, alpha=0.97, eps=1e-6, wd=1e-4):
        self.params, self.lr, self.alpha, self.eps, self.wd = list(params), lr, alpha, eps, wd
        self.sq = [torch.zeros_like(p) for p in self.params]
        self.avg = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, sq, avg in zip(self.params, self.sq, self.avg):
            g = p.grad + self.wd * p
            sq.mul_(self.alpha).addcmul_(g, g, value=1 - self.alpha)
            avg.lerp_(g, 1 - self.alpha)
            denom = (sq - avg * avg).sqrt() + self.eps
            p.addcdiv_(g, denom, value=-self.lr)
            p.grad = None


def main(out):
    device = xm.xla_device()
    torch.manual_seed(21)
    net = Separator().to(device)
    opt = RMSPropCentered(net.parameters())
    for step in range(3):
        ref = torch.randn(3, 2, SAMPLES)
        mix = ref.sum(dim=1).to(device)
        ref = ref.to(device)
        loss = pit_loss(net(mix), ref)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0, foreach=False)
        opt.step()
        if step == 2:
            live = opt.params + opt.sq + opt.avg + [loss]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
