# siamese pre-training on tabular rows: two corrupted views, predictor, no negatives
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    features: int = 20
    width: int = 40
    proj: int = 24
    pred_hidden: int = 12
    batch: int = 32
    corruption: float = 0.3
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    steps: int = 3


def mlp(sizes, last_bn):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        last = i == len(sizes) - 2
        layers.append(nn.Linear(a, b, bias=last and not last_bn))
        if not last:
            layers += [nn.BatchNorm1d(b), nn.ReLU(inplace=True)]
        elif last_bn:
            layers.append(nn.BatchNorm1d(b, affine=False))
    return nn.Sequential(*layers)


class SimSiam(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.encoder = mlp([c.features, c.width, c.proj], last_bn=True)
        self.predictor = mlp([c.proj, c.pred_hidden, c.proj], last_bn=False)

    def forward(self, v1, v2):
        z1, z2 = self.encoder(v1), self.encoder(v2)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        return (p1, z2), (p2, z1)


def neg_cos(p, z):
    return -F.cosine_similarity(p, z, dim=-1).mean()


def corrupt(x, rate, gen):
    mask = torch.rand(x.shape, generator=gen) < rate
    rows = torch.randint(0, x.shape[0], x.shape, generator=gen)
    marginal = torch.gather(x, 0, rows)
    return torch.where(mask, marginal, x)


def run(c=Config()):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    table = torch.randn(512, c.features, generator=gen)
    model = SimSiam(c).to(device)
    opt = torch.optim.SGD(
        model.parameters(), lr=c.lr, momentum=c.momentum, weight_decay=c.weight_decay
    )
    torch_xla.sync()
    for step in range(c.steps):
        idx = torch.randint(0, len(table), (c.batch,), generator=gen)
        x = table[idx]
        v1 = corrupt(x, c.corruption, gen).to(device)
        v2 = corrupt(x, c.corruption, gen).to(device)
        with torch_xla.step():
            opt.zero_grad()
            (p1, t2), (p2, t1) = model(v1, v2)
            loss = 0.5 * neg_cos(p1, t2) + 0.5 * neg_cos(p2, t1)
            loss.backward()
            opt.step()
        print(f"[{step}] loss={loss.item():.4f}")


if __name__ == "__main__":
    run()
