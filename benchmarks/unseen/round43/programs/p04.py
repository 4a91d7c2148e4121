"""Multi-task property prediction from fingerprints: one trunk, a head per assay."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

ASSAYS = ("logp", "solub", "clint", "hERG", "cyp3a4", "cyp2d6", "bbb", "ames")
CLASSIFY = {"hERG", "cyp3a4", "cyp2d6", "bbb", "ames"}
BITS = 128
BATCH = 32
TASKS_PER_STEP = 3


class Fingerprints(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = (torch.rand(n, BITS, generator=g) < 0.15).float()
        w = torch.randn(BITS, len(ASSAYS), generator=g) / BITS**0.5
        raw = self.x @ w * 4 + 0.1 * torch.randn(n, len(ASSAYS), generator=g)
        for j, name in enumerate(ASSAYS):
            if name in CLASSIFY:
                raw[:, j] = (raw[:, j] > raw[:, j].median()).float()
        self.y = raw

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Trunk(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inp = nn.Linear(BITS, hidden)
        self.res = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU())
            for _ in range(1)
        )

    def forward(self, x):
        h = F.gelu(self.inp(x))
        for block in self.res:
            h = h + block(h)
        return h


class AssayNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.trunk = Trunk(hidden)
        self.heads = nn.ModuleDict({name: nn.Linear(hidden, 1) for name in ASSAYS})
        self.log_var = nn.Parameter(torch.zeros(len(ASSAYS)))

    def task_loss(self, name, h, target):
        out = self.heads[name](h).squeeze(-1)
        if name in CLASSIFY:
            return F.binary_cross_entropy_with_logits(out, target)
        return F.mse_loss(out, target)

    def forward(self, x, y, tasks):
        h = self.trunk(x)
        total = 0.0
        losses = {}
        for name in tasks:
            j = ASSAYS.index(name)
            raw = self.task_loss(name, h, y[:, j])
            total = total + torch.exp(-self.log_var[j]) * raw + 0.5 * self.log_var[j]
            losses[name] = raw.detach()
        return total / len(tasks), losses


def evaluate(model, loader):
    model.eval()
    sums = torch.zeros(len(ASSAYS), device=torch_xla.device())
    n = 0
    with torch.no_grad():
        for x, y in loader:
            _, losses = model(x, y, ASSAYS)
            sums += torch.stack([losses[a] for a in ASSAYS])
            n += 1
    model.train()
    return (sums / n).cpu().tolist()


def main():
    random.seed(5)
    torch.manual_seed(5)
    device = torch_xla.device()

    train_set = Fingerprints(320, seed=1)
    train = torch.utils.data.DataLoader(train_set, BATCH, shuffle=True, drop_last=True)
    valid = torch.utils.data.DataLoader(Fingerprints(64, seed=2), BATCH, drop_last=True)

    model = AssayNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    step = 0
    for epoch in range(3):
        for x, y in pl.MpDeviceLoader(train, device):
            tasks = random.sample(ASSAYS, TASKS_PER_STEP)
            opt.zero_grad(set_to_none=False)
            loss, _ = model(x, y, tasks)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            xm.optimizer_step(opt)
            step += 1
        scores = evaluate(model, pl.MpDeviceLoader(valid, device))
        summary = " ".join(f"{a}={s:.3f}" for a, s in zip(ASSAYS, scores))
        print(f"epoch {epoch} step {step} {summary}")


if __name__ == "__main__":
    main()
