"""Keyword spotting on log-mel features: convolutional encoder, LayerDrop and AutoClip.

LayerDrop follows Fan et al. (2020): during training a residual layer is left out
with probability `layerdrop`.  AutoClip follows Seetharaman et al. (2020): the
gradient norm is clipped to a percentile of the norms of the run so far.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

hparams = dict(
    mels=16,
    frames=32,
    width=24,
    layers=4,
    layerdrop=0.25,
    keywords=6,
    clip_percentile=0.25,
    lr=0.05,
    momentum=0.9,
    batch=16,
    clips=352,
    eval_clips=64,
)


class SyntheticKeywords(Dataset):
    """Each keyword is a fixed pair of formant tracks, plus noise and a random gain."""

    def __init__(self, n, hp, seed):
        g = torch.Generator().manual_seed(seed)
        tracks = torch.Generator().manual_seed(7)
        start = torch.rand(hp["keywords"], 2, generator=tracks) * hp["mels"]
        slope = (torch.rand(hp["keywords"], 2, generator=tracks) - 0.5) * 0.4
        self.label = torch.randint(0, hp["keywords"], (n,), generator=g)
        t = torch.arange(hp["frames"]).float()
        mel = torch.arange(hp["mels"]).float().view(1, -1, 1)
        spec = torch.zeros(n, hp["mels"], hp["frames"])
        for k in range(2):
            centre = (start[self.label, k, None] + slope[self.label, k, None] * t).unsqueeze(1)
            spec += torch.exp(-0.5 * (mel - centre) ** 2)
        gain = 0.5 + torch.rand(n, 1, 1, generator=g)
        self.spec = gain * spec + 0.3 * torch.randn(spec.shape, generator=g)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.spec[i], self.label[i]


class ResidualConv(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        return x + F.relu(self.conv(x))


class KeywordNet(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.layerdrop = hp["layerdrop"]
        self.stem = nn.Conv1d(hp["mels"], hp["width"], 5, stride=2, padding=2)
        self.layers = nn.ModuleList(
            ResidualConv(hp["width"], 1 + i % 3) for i in range(hp["layers"])
        )
        self.head = nn.Linear(hp["width"], hp["keywords"])

    def forward(self, spec):
        x = F.relu(self.stem(spec))
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x)
        return self.head(x.mean(dim=-1))


class AutoClip:
    def __init__(self, params, percentile):
        self.params = list(params)
        self.percentile = percentile
        self.norms = []

    @torch.no_grad()
    def __call__(self):
        grads = [p.grad for p in self.params if p.grad is not None]
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        self.norms.append(norm)
        limit = torch.quantile(torch.stack(self.norms), self.percentile)
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(scale)
        return norm


def loader(dataset, hp, device, shuffle):
    host = DataLoader(dataset, hp["batch"], shuffle=shuffle, drop_last=True)
    return pl.MpDeviceLoader(host, device)


@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    hits = seen = 0
    for spec, label in batches:
        hits = hits + (model(spec).argmax(1) == label).sum()
        seen += len(label)
    model.train()
    return hits.item() / seen


def run(hp):
    torch.manual_seed(16)
    random.seed(16)
    device = torch_xla.device()
    model = KeywordNet(hp).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=hp["lr"], momentum=hp["momentum"])
    autoclip = AutoClip(model.parameters(), hp["clip_percentile"])
    train = loader(SyntheticKeywords(hp["clips"], hp, seed=1), hp, device, shuffle=True)
    held_out = loader(SyntheticKeywords(hp["eval_clips"], hp, seed=2), hp, device, shuffle=False)

    for step, (spec, label) in enumerate(train, start=1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(spec), label)
        loss.backward()
        norm = autoclip()
        optimizer.step()
        if step % 8 == 0:
            torch_xla.sync()
            print(f"step {step}: loss {loss.item():.3f} grad norm {norm.item():.2f}")
    print(f"held-out accuracy {accuracy(model, held_out):.3f}")


if __name__ == "__main__":
    run(hparams)
