"""SimSiam pre-training on multispectral satellite tiles."""
import argparse
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BANDS = 6

SimSiamOutput = namedtuple("SimSiamOutput", "p1 p2 z1 z2")


def conv_bn(c_in, c_out, k, s, groups=1):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, k, s, k // 2, groups=groups, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(inplace=True),
    )


class TileEncoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = conv_bn(BANDS, width, 3, 2)
        self.body = conv_bn(width, 2 * width, 3, 2, groups=2)
        self.out_dim = 2 * width

    def forward(self, x):
        x = self.body(self.stem(x))
        return x.mean((2, 3))


class SimSiam(nn.Module):
    def __init__(self, dim=24, pred_dim=8):
        super().__init__()
        self.encoder = TileEncoder()
        d = self.encoder.out_dim
        self.projector = nn.Sequential(
            nn.Linear(d, dim, bias=False), nn.BatchNorm1d(dim), nn.ReLU(inplace=True),
            nn.Linear(dim, dim, bias=False), nn.BatchNorm1d(dim, affine=False),
        )
        self.predictor = nn.Sequential(
            nn.Linear(dim, pred_dim, bias=False), nn.BatchNorm1d(pred_dim), nn.ReLU(inplace=True),
            nn.Linear(pred_dim, dim),
        )

    def forward(self, x1, x2):
        z1 = self.projector(self.encoder(x1))
        z2 = self.projector(self.encoder(x2))
        return SimSiamOutput(self.predictor(z1), self.predictor(z2), z1, z2)


class SymmetricCosineLoss(nn.Module):
    """0.5 * D(p1, z2) + 0.5 * D(p2, z1)."""

    def __init__(self, weights=(0.5, 0.5)):
        super().__init__()
        self.weights = weights

    def distance(self, p, z):
        return -F.cosine_similarity(p, z, dim=-1).mean()

    def forward(self, out):
        w1, w2 = self.weights
        return w1 * self.distance(out.p1, out.z2) + w2 * self.distance(out.p2, out.z1)


@torch.no_grad()
def representation_std(z):
    return F.normalize(z, dim=-1).std(0).mean()


def train_step(model, criterion, opt, x1, x2):
    out = model(x1, x2)
    loss = criterion(out)
    z_std = representation_std(out.z1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach(), z_std


def two_views(tiles, gen):
    views = []
    for _ in range(2):
        gain = 1 + 0.2 * torch.randn(tiles.shape[0], BANDS, 1, 1, generator=gen)
        v = tiles * gain
        if torch.rand((), generator=gen) < 0.5:
            v = v.flip(-1)
        views.append(v + 0.05 * torch.randn(v.shape, generator=gen))
    return views


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--size", type=int, default=16)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = SimSiam().to(device)
    criterion = SymmetricCosineLoss()
    groups = [
        {"params": list(model.encoder.parameters()) + list(model.projector.parameters())},
        {"params": list(model.predictor.parameters()), "lr": 0.05},
    ]
    opt = torch.optim.SGD(groups, lr=0.03, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for step in range(args.steps):
        tiles = torch.rand(args.batch, BANDS, args.size, args.size, generator=gen)
        x1, x2 = (v.to(device) for v in two_views(tiles, gen))
        loss, z_std = train_step(model, criterion, opt, x1, x2)
        torch_xla.sync()
        print(step, round(loss.item(), 4), round(z_std.item(), 4))


if __name__ == "__main__":
    main()
