"""Waveform U-Net for single-channel speech enhancement."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Down(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(2, c_out)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.1)


class Up(nn.Module):
    def __init__(self, c_in, c_skip, c_out):
        super().__init__()
        self.up = nn.Conv1d(c_in, c_out, 3, padding=1)
        self.conv = nn.Conv1d(c_out + c_skip, c_out, 3, padding=1)

    def forward(self, x, skip):
        x = self.up(x.repeat_interleave(2, dim=-1))
        x = torch.cat([x, skip], 1)
        return F.leaky_relu(self.conv(x), 0.1)


class WaveUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 7, padding=3)
        self.d1 = Down(width, 2 * width)
        self.d2 = Down(2 * width, 2 * width)
        self.u2 = Up(2 * width, 2 * width, 2 * width)
        self.u1 = Up(2 * width, width, width)
        self.out = nn.Conv1d(width, 1, 1, bias=False)

    def forward(self, noisy):
        s0 = F.leaky_relu(self.stem(noisy), 0.1)
        s1 = self.d1(s0)
        s2 = self.d2(s1)
        mask = torch.tanh(self.out(self.u1(self.u2(s2, s1), s0)))
        return noisy * mask


def si_sdr(est, ref, eps=1e-8):
    scale = (est * ref).sum(-1, keepdim=True) / (ref.pow(2).sum(-1, keepdim=True) + eps)
    target = scale * ref
    noise = est - target
    return 10 * torch.log10((target.pow(2).sum(-1) + eps) / (noise.pow(2).sum(-1) + eps))


def criterion(est, clean):
    return F.l1_loss(est, clean) - 0.01 * si_sdr(est, clean).mean()


def mixtures(n, batch_size, length, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length) / length
    for _ in range(n):
        f = torch.rand(batch_size, 1, 1, generator=g) * 20 + 2
        clean = torch.sin(6.2832 * f * t)
        yield clean + 0.3 * torch.randn(batch_size, 1, length, generator=g), clean


def train(steps=4, batch_size=4, length=64, max_norm=5.0):
    torch.manual_seed(0)
    device = torch_xla.device()
    net = WaveUNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4, betas=(0.8, 0.99))
    torch_xla.sync()
    for noisy, clean in mixtures(steps, batch_size, length):
        noisy, clean = noisy.to(device), clean.to(device)
        opt.zero_grad()
        loss = criterion(net(noisy), clean)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm)
        opt.step()
        torch_xla.sync()
    return loss.item()


if __name__ == "__main__":
    print(train())
