import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

log = logging.getLogger("birds")


def parse():
    ap = argparse.ArgumentParser("two-view projection of bird call embeddings")
    ap.add_argument("--calls", type=int, default=400)
    ap.add_argument("--frames", type=int, default=20)
    ap.add_argument("--mels", type=int, default=24)
    ap.add_argument("--embed", type=int, default=32)
    ap.add_argument("--proj", type=int, default=16)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--decay", type=float, default=0.9)
    ap.add_argument("--off-weight", type=float, default=0.02)
    ap.add_argument("--lr", type=float, default=0.05)
    return ap.parse_args()


class CallViews(Dataset):
    """Pairs of noisy takes of one call."""

    def __init__(self, n, frames, mels, species=12):
        g = torch.Generator().manual_seed(5)
        proto = torch.randn(species, frames, mels, generator=g)
        which = torch.randint(species, (n,), generator=g)
        self.base = proto[which]
        self.noise = torch.randn(n, 2, frames, mels, generator=g) * 0.4

    def __len__(self):
        return self.base.shape[0]

    def __getitem__(self, i):
        return self.base[i] + self.noise[i, 0], self.base[i] + self.noise[i, 1]


class Backbone(nn.Module):
    """Stand-in for the published checkpoint; stays as it is."""

    def __init__(self, mels, embed):
        super().__init__()
        self.conv = nn.Conv1d(mels, embed, 5, padding=2)
        self.fc = nn.Linear(embed, embed)
        self.requires_grad_(False)
        self.eval()

    @torch.no_grad()
    def forward(self, spec):
        h = torch.relu(self.conv(spec.transpose(1, 2))).mean(-1)
        return torch.tanh(self.fc(h))


class CrossCorrelation(nn.Module):
    """Redundancy-reduction objective on a smoothed cross-correlation matrix,
    since one small batch alone estimates the matrix badly."""

    def __init__(self, dim, decay, off_weight):
        super().__init__()
        self.decay = decay
        self.off_weight = off_weight
        self.matrix = None
        self.register_buffer("eye", torch.eye(dim))

    def forward(self, a, b):
        a = (a - a.mean(0)) / (a.std(0) + 1e-4)
        b = (b - b.mean(0)) / (b.std(0) + 1e-4)
        now = a.t() @ b / a.shape[0]
        if self.matrix is None:
            self.matrix = now
        else:
            self.matrix = self.decay * self.matrix + (1 - self.decay) * now
        diff = (self.matrix - self.eye).square()
        on = (diff * self.eye).sum()
        off = (diff * (1 - self.eye)).sum()
        return on + self.off_weight * off


def main():
    logging.basicConfig(level=logging.INFO, force=True, format="%(name)s | %(message)s")
    args = parse()
    torch.manual_seed(0)
    device = torch_xla.device()

    loader = DataLoader(
        CallViews(args.calls, args.frames, args.mels),
        batch_size=args.batch, shuffle=True, drop_last=True,
    )
    loader = pl.MpDeviceLoader(loader, device)

    backbone = Backbone(args.mels, args.embed).to(device)
    head = nn.Linear(args.embed, args.proj).to(device)
    objective = CrossCorrelation(args.proj, args.decay, args.off_weight).to(device)
    opt = torch.optim.SGD(head.parameters(), lr=args.lr, momentum=0.9)

    for epoch in range(args.epochs):
        running = torch.zeros((), device=device)
        for left, right in loader:
            loss = objective(head(backbone(left)), head(backbone(right)))
            opt.zero_grad()
            loss.backward(retain_graph=True)
            xm.optimizer_step(opt)
            running += loss.detach()
        xm.mark_step()
        log.info("epoch %d  objective %.4f", epoch, running.item() / len(loader))


if __name__ == "__main__":
    main()
