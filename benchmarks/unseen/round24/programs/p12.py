# keyword spotting with label noise (small-loss selection), log-spectrogram CNN + GRU
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    sr=2000, dur=0.5, n_fft=128, hop=50, classes=6,
    batch=32, epochs=12, steps_per_epoch=5,
    noise=0.35, gradual=9, lr=2e-3, log_every=6,
)


def synth(rng, n):
    t = np.arange(int(CFG['sr'] * CFG['dur'])) / CFG['sr']
    labels = rng.integers(0, CFG['classes'], n)
    base = 120 + 90 * labels[:, None]
    chirp = rng.uniform(-60, 60, (n, 1))
    wav = np.sin(2 * math.pi * (base + chirp * t) * t) + 0.4 * rng.standard_normal((n, t.size))
    return wav.astype(np.float32), labels


def log_spec(wav):
    x = torch.from_numpy(wav)
    s = torch.stft(x, CFG['n_fft'], hop_length=CFG['hop'], window=torch.hann_window(CFG['n_fft']),
                   return_complex=True).abs()
    return torch.log1p(s[:, :40])


class Spotter(nn.Module):
    def __init__(self, bins=40, hid=24, classes=6):
        super().__init__()
        self.conv = nn.Conv1d(bins, hid, 5, stride=2, padding=2)
        self.mix = nn.Conv1d(hid, hid, 3, padding=1, groups=hid)
        self.norm = nn.LayerNorm(hid)
        self.att = nn.Linear(hid, 1)
        self.out = nn.Linear(hid, classes)

    def forward(self, spec):
        h = F.relu(self.conv(spec))
        h = (h + F.relu(self.mix(h))).transpose(1, 2)
        h = self.norm(h)
        w = self.att(h).softmax(dim=1)
        return self.out((w * h).sum(1))


class Meter:
    def __init__(self):
        self.history = []

    def update(self, value):
        self.history.append(value.detach())

    def average(self):
        return torch.stack(self.history).mean().item()


def forget_rate(epoch):
    return CFG['noise'] * min(1.0, epoch / CFG['gradual'])


def small_loss(logits, target, epoch):
    losses = F.cross_entropy(logits, target, reduction='none')
    keep = int((1.0 - forget_rate(epoch)) * losses.numel())
    kept, _ = torch.topk(losses, keep, largest=False)
    return kept.mean()


def train():
    rng = np.random.default_rng(5)
    torch.manual_seed(5)
    dev = torch_xla.device()
    net = Spotter().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=CFG['lr'])
    meter = Meter()

    n_total = CFG['batch'] * CFG['steps_per_epoch']
    wav, lab = synth(rng, n_total)
    noisy = lab.copy()
    flip = rng.random(n_total) < CFG['noise']
    noisy[flip] = rng.integers(0, CFG['classes'], flip.sum())
    feats, noisy = log_spec(wav), torch.from_numpy(noisy)

    step = 0
    for epoch in range(CFG['epochs']):
        order = torch.from_numpy(rng.permutation(n_total))
        for chunk in order.split(CFG['batch']):
            x = feats[chunk].to(dev)
            y = noisy[chunk].to(dev)
            opt.zero_grad()
            loss = small_loss(net(x), y, epoch)
            loss.backward()
            opt.step()
            torch_xla.sync()
            meter.update(loss)
            step += 1
            if step % CFG['log_every'] == 0:
                print('epoch %d step %d  avg loss %.4f' % (epoch, step, meter.average()))


if __name__ == '__main__':
    train()
