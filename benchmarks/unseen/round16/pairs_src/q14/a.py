"""Age-from-voice: ordinal regression on pooled prosody features, with feature-wise conditioning."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

BANDS = 8


class Utterances(Dataset):
    def __init__(self, n=160, frames=20, feats=10):
        g = torch.Generator().manual_seed(21)
        self.speaker = torch.randint(0, 4, (n,), generator=g)
        self.age = torch.randint(0, BANDS, (n,), generator=g)
        self.x = torch.randn(n, frames, feats, generator=g)
        self.x[..., 0] += self.age[:, None] * 0.3
        self.x[..., 1] -= self.speaker[:, None] * 0.2

    def __len__(self):
        return len(self.age)

    def __getitem__(self, i):
        return self.x[i], self.speaker[i], self.age[i]


class FiLM(nn.Module):
    def __init__(self, kinds, d):
        super().__init__()
        self.table = nn.Embedding(kinds, 2 * d)
        nn.init.zeros_(self.table.weight)

    def forward(self, h, kind):
        scale, shift = self.table(kind).unsqueeze(1).chunk(2, -1)
        return h * (1 + scale) + shift


class StatsPool(nn.Module):
    """Mean and standard deviation over the frames."""

    def forward(self, h):
        mean = h.mean(1)
        std = h.var(1, unbiased=True).add(1e-4).sqrt()
        return torch.cat([mean, std], -1)


class AgeNet(nn.Module):
    def __init__(self, feats=10, d=16):
        super().__init__()
        self.inp = nn.Linear(feats, d)
        self.film = FiLM(4, d)
        self.mid = nn.Linear(d, d)
        self.pool = StatsPool()
        self.score = nn.Linear(2 * d, 1, bias=False)
        self.cuts = nn.Parameter(torch.linspace(-2, 2, BANDS - 1))

    def forward(self, x, speaker):
        h = F.silu(self.film(self.inp(x), speaker))
        h = h + F.silu(self.mid(h))
        return self.score(self.pool(h)) - self.cuts


def ordinal_loss(logits, age):
    levels = torch.arange(BANDS - 1, device=age.device)
    target = (age[:, None] > levels).float()
    per_cut = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return per_cut.sum(1).mean()


def main(epochs=1):
    torch.manual_seed(0)
    device = torch_xla.device()
    net = AgeNet().to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    loader = pl.MpDeviceLoader(DataLoader(Utterances(), batch_size=16, drop_last=True), device)
    for epoch in range(epochs):
        for x, speaker, age in loader:
            opt.zero_grad()
            loss = ordinal_loss(net(x, speaker), age)
            loss.backward()
            nn.utils.clip_grad_value_(net.parameters(), 0.5)
            opt.step()
        print("epoch", epoch, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
