"""Frame-level bird call detection on short log-mel clips.

Each clip has a label per frame and species. Calls are rare, so the loss keeps
all the positives and only the hardest of the negative cells.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MELS, FRAMES, SPECIES = 16, 48, 4


class Clips(torch.utils.data.IterableDataset):
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def __iter__(self):
        g = self.gen
        t = torch.arange(FRAMES).float()
        while True:
            mel = 0.3 * torch.randn(MELS, FRAMES, generator=g)
            lab = torch.zeros(SPECIES, FRAMES)
            for s in range(SPECIES):
                if torch.rand((), generator=g) < 0.4:
                    start = torch.randint(0, FRAMES - 8, (), generator=g)
                    length = torch.randint(4, 9, (), generator=g)
                    on = ((t >= start) & (t < start + length)).float()
                    mel[s * 4:s * 4 + 3] += on
                    lab[s] = on
            yield mel, lab


class Augment:
    """Gain, circular time shift and a per-band tilt."""

    def __init__(self, max_shift, rng):
        self.max_shift = max_shift
        self.rng = rng

    def __call__(self, mel, lab):
        gain = 0.5 + torch.rand(mel.shape[0], 1, 1, device=mel.device)
        tilt = torch.linspace(-1.0, 1.0, MELS, device=mel.device).view(1, -1, 1)
        mel = gain * mel + 0.1 * torch.randn_like(gain) * tilt
        shift = self.rng.randint(-self.max_shift, self.max_shift)
        mel = torch.roll(mel, shift, dims=-1)
        lab = torch.roll(lab, shift, dims=-1)
        return mel, lab


class SepConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.depth = nn.Conv1d(cin, cin, 5, padding=2, groups=cin)
        self.point = nn.Conv1d(cin, cout, 1)
        self.norm = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.relu(self.norm(self.point(self.depth(x))))


class CallNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(SepConv(MELS, width), SepConv(width, width),
                                 nn.Conv1d(width, SPECIES, 1))

    def forward(self, mel):
        return self.net(mel)


class HardNegativeBCE(nn.Module):
    def __init__(self, ratio=3, floor=16):
        super().__init__()
        self.ratio = ratio
        self.floor = floor

    def forward(self, logits, lab):
        cell = F.binary_cross_entropy_with_logits(logits, lab, reduction="none")
        pos = (cell * lab).sum()
        n_pos = int(lab.sum())
        neg = (cell * (1 - lab)).flatten()
        keep = min(max(self.ratio * n_pos, self.floor), neg.numel())
        hard = neg.topk(keep).values
        return (pos + hard.sum()) / (n_pos + keep)


def cycle_batches(batch):
    loader = torch.utils.data.DataLoader(Clips(seed=31), batch_size=batch)
    for mel, lab in loader:
        yield mel, lab


def main(steps=16, batch=8):
    torch.manual_seed(31)
    device = xm.xla_device()
    augment = Augment(max_shift=20, rng=random.Random(13))
    model = CallNet().to(device)
    criterion = HardNegativeBCE()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    smooth = torch.zeros((), device=device)

    batches = cycle_batches(batch)
    for step in range(steps):
        mel, lab = next(batches)
        mel, lab = mel.to(device), lab.to(device)
        mel, lab = augment(mel, lab)
        logits = model(mel)
        loss = criterion(logits, lab)
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth = smooth + 0.1 * (loss.detach() - smooth)
        torch_xla.sync()
        if step % 8 == 7:
            print(f"step {step} loss {smooth.item():.4f}")


if __name__ == "__main__":
    main()
