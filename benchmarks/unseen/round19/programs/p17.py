"""Malware classifier on raw byte prefixes: frozen start, full tuning, hardened tuning."""
import logging

import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("bytes")

PREFIX = 256
ACCUMULATE = 3


def corpus(n=220, seed=5):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (n, PREFIX), generator=g)
    y = torch.randint(0, 2, (n,), generator=g).float()
    marker = torch.tensor([0x4D, 0x5A, 0x90, 0xE8, 0xCC, 0xEB, 0xFE, 0x00])
    for i in range(n):
        if y[i] > 0:
            at = int(torch.randint(0, PREFIX - 8, (1,), generator=g))
            x[i, at:at + 8] = marker
    return TensorDataset(x, y)


class GatedBytes(nn.Module):
    def __init__(self, dim=8, channels=24, window=16):
        super().__init__()
        self.embed = nn.Embedding(256, dim)
        self.value = nn.Conv1d(dim, channels, window, stride=8)
        self.gate = nn.Conv1d(dim, channels, window, stride=8)
        self.head = nn.Sequential(nn.Linear(channels, 32), nn.ReLU(), nn.Linear(32, 1))

    def from_embedding(self, e):
        e = e.transpose(1, 2)
        z = self.value(e) * torch.sigmoid(self.gate(e))
        return self.head(z.amax(-1)).squeeze(-1)

    def forward(self, x):
        return self.from_embedding(self.embed(x))


def hardened_loss(model, x, y, radius=0.05):
    e = model.embed(x)
    probe = e.detach().requires_grad_(True)
    clean = F.binary_cross_entropy_with_logits(model.from_embedding(probe), y)
    (direction,) = torch.autograd.grad(clean, probe)
    shifted = e + radius * direction.sign()
    return F.binary_cross_entropy_with_logits(model.from_embedding(shifted), y)


def plain_loss(model, x, y):
    return F.binary_cross_entropy_with_logits(model(x), y)


def train_epoch(model, loader, opt, loss_fn, device):
    model.train()
    opt.zero_grad()
    for i, (x, y) in enumerate(loader, 1):
        loss = loss_fn(model, x.to(device), y.to(device)) / ACCUMULATE
        loss.backward()
        if i % ACCUMULATE == 0 or i == len(loader):
            nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
            opt.step()
            opt.zero_grad()
        torch_xla.sync()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    scores, truth = [], []
    for x, y in loader:
        out = torch.sigmoid(model(x.to(device)))
        torch_xla.sync()
        scores += out.cpu().tolist()
        truth += y.tolist()
    return roc_auc_score(truth, scores)


def main():
    torch.manual_seed(17)
    device = xm.xla_device()
    train, test = random_split(corpus(), [172, 48], torch.Generator().manual_seed(1))
    train_loader = DataLoader(train, batch_size=16, shuffle=True)
    test_loader = DataLoader(test, batch_size=20)
    model = GatedBytes().to(device)
    stages = [
        ("head", 2, [model.head], plain_loss, 5e-3),
        ("full", 3, [model], plain_loss, 2e-3),
        ("hardened", 3, [model], hardened_loss, 1e-3),
    ]
    for name, epochs, parts, loss_fn, lr in stages:
        model.requires_grad_(False)
        for part in parts:
            part.requires_grad_(True)
        opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
        for epoch in range(epochs):
            train_epoch(model, train_loader, opt, loss_fn, device)
            log.info("%s epoch %d auc %.3f", name, epoch, evaluate(model, test_loader, device))


if __name__ == "__main__":
    main()
