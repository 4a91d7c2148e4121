"""Keyword spotting: depthwise-separable CNN over log-mel frames."""
import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class SpecAugment:
    def __init__(self, freq_mask=6, time_mask=8):
        self.freq_mask = freq_mask
        self.time_mask = time_mask

    def __call__(self, spec):
        spec = spec.clone()
        n_mels, n_frames = spec.shape[-2:]
        f = random.randint(1, self.freq_mask)
        f0 = random.randint(0, n_mels - f)
        spec[..., f0:f0 + f, :] = 0.0
        t = random.randint(1, self.time_mask)
        t0 = random.randint(0, n_frames - t)
        spec[..., t0:t0 + t] = 0.0
        return spec


class DSBlock(nn.Module):
    def __init__(self, c_in, c_out, stride=1):
        super().__init__()
        self.dw = nn.Conv2d(c_in, c_in, 3, stride, 1, groups=c_in, bias=False)
        self.bn1 = nn.BatchNorm2d(c_in)
        self.pw = nn.Conv2d(c_in, c_out, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)

    def forward(self, x):
        x = F.relu(self.bn1(self.dw(x)))
        return F.relu(self.bn2(self.pw(x)))


class DSCNN(nn.Module):
    def __init__(self, n_words, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, (5, 3), stride=2, padding=(2, 1), bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.b1 = DSBlock(width, width)
        self.b2 = DSBlock(width, 2 * width, 2)
        self.fc = nn.Linear(2 * width, n_words)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        return self.fc(self.b2(self.b1(x)).mean((2, 3)))


class ModelEma:
    def __init__(self, model, decay, start):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay
        self.start = start

    @torch.no_grad()
    def update(self, model, step):
        if step < self.start:
            return
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.lerp_(p, 1.0 - self.decay)


def fake_clips(n, batch_size, n_words, seed=2):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield (torch.randn(batch_size, 1, 20, 32, generator=g),
               torch.randint(0, n_words, (batch_size,), generator=g))


def main(total_steps=9, n_words=12):
    torch.manual_seed(0)
    random.seed(0)
    device = torch_xla.device()
    model = DSCNN(n_words).to(device)
    ema = ModelEma(model, decay=0.99, start=6)
    augment = SpecAugment()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    torch_xla.sync()

    seen, correct = 0, torch.zeros((), device=device)
    for step, (x, y) in enumerate(fake_clips(total_steps, 6, n_words)):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        logits = model(augment(x))
        loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        loss.backward()
        opt.step()
        ema.update(model, step)
        correct += (logits.argmax(1) == y).float().sum()
        seen += len(y)
        torch_xla.sync()
    print("acc", correct.item() / seen, "loss", loss.item())


if __name__ == "__main__":
    main()
