"""Click model: factorization machine + MLP over id features and a click history."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    dim: int = 8
    vocab: dict = field(default_factory=lambda: {"user": 400, "item": 250, "category": 20, "hour": 24})
    dense: int = 4
    history: int = 10
    hidden: tuple = (32, 16)
    combiner: str = "mean"
    lr: float = 2e-3
    label_noise: float = 0.05
    batch: int = 64
    steps: int = 12


def combine(emb, mask, how):
    total = (emb * mask.unsqueeze(-1)).sum(1)
    count = mask.sum(1, keepdim=True).clamp(min=1.0)
    if how == "sum":
        return total
    if how == "mean":
        return total / count
    if how == "sqrtn":
        return total / count.sqrt()
    raise ValueError(how)


class ClickModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.names = list(cfg.vocab)
        self.emb = nn.ModuleDict({n: nn.Embedding(v, cfg.dim) for n, v in cfg.vocab.items()})
        self.linear = nn.ModuleDict({n: nn.Embedding(v, 1) for n, v in cfg.vocab.items()})
        for table in [*self.emb.values(), *self.linear.values()]:
            nn.init.normal_(table.weight, std=0.02)
        self.dense_proj = nn.Linear(cfg.dense, cfg.dim)
        layers, width = [], (len(self.names) + 2) * cfg.dim
        for h in cfg.hidden:
            layers += [nn.Linear(width, h, bias=False), nn.BatchNorm1d(h), nn.ReLU()]
            width = h
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, batch):
        fields = [self.emb[n](batch[n]) for n in self.names]
        history = self.emb["item"](batch["history"])
        fields.append(combine(history, batch["history_mask"], self.cfg.combiner))
        fields.append(self.dense_proj(batch["dense"]))
        v = torch.stack(fields, dim=1)
        pairwise = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(-1)
        first = torch.cat([self.linear[n](batch[n]) for n in self.names], dim=1).sum(1)
        return self.mlp(v.flatten(1)).squeeze(-1) + pairwise + first + self.bias


class ClickLog:
    def __init__(self, cfg, seed=0):
        self.cfg, self.rng = cfg, np.random.default_rng(seed)
        self.taste = self.rng.normal(size=(cfg.vocab["user"], 4))
        self.topic = self.rng.normal(size=(cfg.vocab["item"], 4))

    def batch(self):
        cfg, rng, n = self.cfg, self.rng, self.cfg.batch
        ids = {k: rng.integers(0, v, n) for k, v in cfg.vocab.items()}
        score = (self.taste[ids["user"]] * self.topic[ids["item"]]).sum(1)
        click = (score + rng.normal(size=n) > 0).astype(np.float32)
        length = rng.integers(0, cfg.history + 1, n)
        out = {k: torch.from_numpy(v) for k, v in ids.items()}
        out["history"] = torch.from_numpy(rng.integers(0, cfg.vocab["item"], (n, cfg.history)))
        out["history_mask"] = torch.from_numpy((np.arange(cfg.history) < length[:, None]).astype(np.float32))
        out["dense"] = torch.from_numpy(rng.normal(size=(n, cfg.dense)).astype(np.float32))
        out["click"] = torch.from_numpy(click)
        return out


def main(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    log = ClickLog(cfg)
    model = ClickModel(cfg).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg.lr, initial_accumulator_value=0.1)
    model.train()
    clicks = torch.zeros(2, device=device)
    for step in range(cfg.steps):
        batch = {k: v.to(device) for k, v in log.batch().items()}
        logit = model(batch)
        target = batch["click"] * (1 - 2 * cfg.label_noise) + cfg.label_noise
        loss = F.binary_cross_entropy_with_logits(logit, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            clicks += torch.stack([torch.sigmoid(logit).sum(), batch["click"].sum()])
        torch_xla.sync()
        if step % 4 == 3:
            expected, observed = clicks.tolist()
            print(step, f"loss {loss.item():.4f} calibration {expected / observed:.3f}")


if __name__ == "__main__":
    main(Config())
