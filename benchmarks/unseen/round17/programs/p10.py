"""Hail-damage model for orchards, robust over growing regions.

Follows group-DRO: every region carries a weight that rises while the region
is poorly fitted. Regions differ a lot in how many parcels they send.
"""
import logging
from collections import defaultdict

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla

logger = logging.getLogger("orchard")

REGIONS = ["north", "lake", "valley", "east", "ridge", "south", "coast", "delta"]
SHARE = np.array([0.34, 0.24, 0.16, 0.10, 0.06, 0.045, 0.03, 0.025])


def load_parcels(n, seed):
    rng = np.random.default_rng(seed)
    x, y = make_classification(n, n_features=14, n_informative=8, class_sep=0.8, random_state=5)
    region = rng.choice(len(REGIONS), n, p=SHARE / SHARE.sum())
    x = StandardScaler().fit_transform(x) + 0.15 * region[:, None]
    return TensorDataset(torch.tensor(x, dtype=torch.float32),
                         torch.tensor(y, dtype=torch.float32), torch.tensor(region))


class DamageNet(nn.Module):
    def __init__(self, features=14, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class RobustLoss:
    """Weighted sum of region losses, the weights follow the losses."""

    def __init__(self, groups, rate, device):
        self.rate = rate
        self.weight = torch.full((groups,), 1.0 / groups, device=device)

    def __call__(self, logits, y, region):
        each = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
        ids = region.to(each.device)
        total = each.new_zeros(())
        grown = self.weight.clone()
        for g in region.unique().tolist():
            member = (ids == g).float()
            loss_g = (each * member).sum() / member.sum()
            grown[g] = grown[g] * torch.exp(self.rate * loss_g.detach())
            total = total + self.weight[g] * loss_g
        self.weight = grown / grown.sum()
        return total


@torch.no_grad()
def region_table(model, loader, device):
    model.eval()
    right = torch.zeros(len(REGIONS), device=device)
    count = torch.zeros(len(REGIONS), device=device)
    for x, y, region in loader:
        x, y = x.to(device), y.to(device)
        hit = ((model(x) > 0) == (y > 0.5)).float()
        member = F.one_hot(region, len(REGIONS)).float().to(device)
        right += hit @ member
        count += member.sum(0)
        torch_xla.sync()
    model.train()
    return dict(zip(REGIONS, (right / count).cpu().tolist()))


class Meter:
    def __init__(self):
        self.store = defaultdict(list)

    def add(self, **kw):
        for k, v in kw.items():
            self.store[k].append(v)

    def last(self, k):
        return self.store[k][-1]


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s | %(message)s")
    torch.manual_seed(13)
    device = torch_xla.device()
    train = DataLoader(load_parcels(1200, 0), batch_size=32, shuffle=True, drop_last=True)
    valid = DataLoader(load_parcels(300, 1), batch_size=100)
    model = DamageNet().to(device)
    criterion = RobustLoss(len(REGIONS), 0.05, device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    cycle = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 2 * len(train), eta_min=3e-4)
    meter = Meter()
    torch_xla.sync()

    step = 0
    for epoch in range(2):
        for x, y, region in train:
            opt.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device), region)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            cycle.step()
            torch_xla.sync()
            step += 1
            if step % 9 == 0:
                meter.add(loss=loss.item())
                logger.info("step %d robust loss %.4f", step, meter.last("loss"))
        table = region_table(model, valid, device)
        worst = min(table, key=table.get)
        logger.info("epoch %d worst region %s %.3f", epoch, worst, table[worst])
    logger.info("weights %s", [round(v, 3) for v in criterion.weight.cpu().tolist()])


if __name__ == "__main__":
    main()
