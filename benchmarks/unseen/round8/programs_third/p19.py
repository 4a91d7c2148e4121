"""Click model with torchmetrics; validation AUROC is reported along the way."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torchmetrics
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("clicks")


@dataclass
class Config:
    seed: int = 33
    fields: int = 4
    cardinality: int = 20
    dim: int = 6
    batch_size: int = 16
    steps: int = 32
    report_every: int = 4
    lr: float = 8e-2


class FactorizationMachine(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.fields * cfg.cardinality, cfg.dim)
        self.lin = nn.Embedding(cfg.fields * cfg.cardinality, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.register_buffer("offset", torch.arange(cfg.fields) * cfg.cardinality)

    def forward(self, ids):
        ids = ids + self.offset
        v = self.emb(ids)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(-1)
        return self.bias + self.lin(ids).sum((1, 2)) + pair


def click_log(cfg, n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, cfg.cardinality, (n, cfg.fields), generator=g)
    score = ((ids[:, 0] + ids[:, 1]) % 5).float() - 2 + 0.5 * torch.randn(n, generator=g)
    return TensorDataset(ids, (score > 0).long())


class Metrics:
    """Progressive validation: each batch is scored before the model learns from it."""

    def __init__(self, device):
        self.loss = torchmetrics.MeanMetric().to(device)
        self.auroc = torchmetrics.classification.BinaryAUROC(thresholds=None, validate_args=False).to(device)

    def update(self, loss, logits, label):
        self.loss.update(loss)
        self.auroc.update(torch.sigmoid(logits), label)

    def report(self):
        out = {"loss": self.loss.compute().item(), "auroc": self.auroc.compute().item()}
        self.loss.reset()
        return out


def train_step(model, opt, metrics, ids, label):
    logits = model(ids)
    loss = F.binary_cross_entropy_with_logits(logits, label.float())
    opt.zero_grad()
    loss.backward()
    opt.step()
    metrics.update(loss.detach(), logits.detach(), label)
    torch_xla.sync()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    data = click_log(cfg, cfg.batch_size * cfg.steps, cfg.seed)
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=False, drop_last=True)
    model = FactorizationMachine(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    metrics = Metrics(device)
    torch_xla.sync()
    for step, (ids, label) in enumerate(loader):
        train_step(model, opt, metrics, ids.to(device), label.to(device))
        if (step + 1) % cfg.report_every == 0:
            report = metrics.report()
            log.info("step %d loss %.4f auroc %.4f", step + 1, report["loss"], report["auroc"])


if __name__ == "__main__":
    main()
