"""Load forecasting from several meters with a small TCN; the series come from numpy, one data set a site."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Sampler
import torch_xla
import torch_xla.core.xla_model as xm

CONTEXT, HORIZON = 32, 8


def read_site(site, n=132):
    rng = np.random.default_rng(site)
    t = np.arange(n)
    load = 2 + np.sin(t * 2 * np.pi / 24) + 0.3 * np.cos(t * 2 * np.pi / (24 * 7)) + 0.1 * rng.normal(size=n)
    return load.astype(np.float32)


class Site(Dataset):
    def __init__(self, site, robust=False):
        load = read_site(site)
        if robust:
            lo, mid, hi = np.percentile(load.astype(np.float64), [25, 50, 75])
            self.series = (load - mid) / (hi - lo)
        else:
            self.series = (load - load.mean()) / load.std()

    def __len__(self):
        return (len(self.series) - CONTEXT - HORIZON) // 4

    def __getitem__(self, i):
        lo = i * 4
        return self.series[lo:lo + CONTEXT], self.series[lo + CONTEXT:lo + CONTEXT + HORIZON]


class BySite(Sampler):
    """Batches that never mix two sites (each has its own scale)."""

    def __init__(self, sets, batch, seed):
        self.sizes, self.batch = [len(s) for s in sets], batch
        self.g = torch.Generator().manual_seed(seed)

    def __iter__(self):
        base, out = 0, []
        for n in self.sizes:
            order = (base + torch.randperm(n, generator=self.g)).tolist()
            out += [order[i:i + self.batch] for i in range(0, n, self.batch)]
            base += n
        for k in range(len(out)):
            yield out[k]


class TCN(nn.Module):
    def __init__(self, width=16, levels=3):
        super().__init__()
        self.inp = nn.Conv1d(1, width, 1)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2 ** i) for i in range(levels))
        self.out = nn.Linear(width, HORIZON)

    def forward(self, x):
        h = self.inp(x[:, None])
        for conv in self.convs:
            h = h + F.relu(conv(F.pad(h, (2 * conv.dilation[0], 0))))
        return self.out(h[..., -1])


def main(epochs=3):
    torch.manual_seed(0)
    dev = torch_xla.device()
    sets = [Site(0), Site(1), Site(2, robust=True)]
    loader = DataLoader(ConcatDataset(sets), batch_sampler=BySite(sets, 8, 0))
    model = TCN().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    torch_xla.sync()
    for epoch in range(epochs):
        seen = 0
        for past, future in loader:
            past, future = past.to(dev), future.to(dev)
            opt.zero_grad()
            loss = F.l1_loss(model(past.float()), future)
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
            seen += past.shape[0]
        print(f"epoch {epoch} windows {seen} loss {float(loss.cpu()):.4f}")


if __name__ == "__main__":
    main()
