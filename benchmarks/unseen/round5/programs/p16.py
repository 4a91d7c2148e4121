"""LoRA fine-tuning for several tenants over one frozen encoder."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TENANTS = ("acme", "bolt", "corex", "delta", "evora", "fjord")


@dataclass
class LoraConfig:
    vocab: int = 150
    seq: int = 10
    dim: int = 24
    rank: int = 2
    scale: float = 2.0
    classes: int = 4
    batch: int = 8
    steps: int = 34
    lr: float = 5e-3
    traffic: tuple = (30, 12, 6, 4, 2, 1)


class MultiLora(nn.Module):
    """Frozen linear layer with one low-rank correction per tenant."""

    def __init__(self, base, cfg):
        super().__init__()
        self.base, self.scale = base.requires_grad_(False), cfg.scale
        self.a = nn.ParameterDict({
            t: nn.Parameter(0.05 * torch.randn(base.in_features, cfg.rank)) for t in TENANTS})
        self.b = nn.ParameterDict({
            t: nn.Parameter(torch.zeros(cfg.rank, base.out_features)) for t in TENANTS})

    def forward(self, x, route):
        a = torch.stack([self.a[t] for t in TENANTS])
        b = torch.stack([self.b[t] for t in TENANTS])
        low = torch.einsum("bti,nir->bntr", x, a) * route[:, :, None, None]
        return self.base(x) + self.scale * torch.einsum("bntr,nro->bto", low, b)


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.dim
        self.emb = nn.Embedding(cfg.vocab, d).requires_grad_(False)
        self.up = MultiLora(nn.Linear(d, 2 * d), cfg)
        self.down = MultiLora(nn.Linear(2 * d, d), cfg)
        self.norm = nn.LayerNorm(d).requires_grad_(False)
        self.head = nn.Linear(d, cfg.classes).requires_grad_(False)

    def forward(self, tokens, route):
        x = self.emb(tokens)
        x = x + self.down(F.gelu(self.up(x, route)), route)
        return self.head(self.norm(x).mean(1))

    def adapters(self, tenant):
        return [layer[tenant] for m in (self.up, self.down) for layer in (m.a, m.b)]


class Traffic:
    """Requests of all tenants; a few of them send most of the data."""

    def __init__(self, cfg, seed=0):
        self.cfg, self.rng = cfg, random.Random(seed)

    def batch(self):
        cfg = self.cfg
        who = self.rng.choices(range(len(TENANTS)), weights=cfg.traffic, k=cfg.batch)
        tokens = [[self.rng.randrange(cfg.vocab) for _ in range(cfg.seq)] for _ in who]
        labels = [(t[0] + w) % cfg.classes for t, w in zip(tokens, who)]
        return torch.tensor(tokens), torch.tensor(labels), torch.tensor(who)


class Tuner:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg, self.device = cfg, torch_xla.device()
        self.model = Encoder(cfg).to(self.device)
        groups = [{"params": self.model.adapters(t), "name": t} for t in TENANTS]
        self.opt = torch.optim.AdamW(groups, lr=cfg.lr, weight_decay=0.05)
        self.updates = dict.fromkeys(TENANTS, 0)

    def settle(self, who):
        """Tenants without data in this batch must not drift (decay, momentum)."""
        present = {TENANTS[i] for i in who.tolist()}
        for tenant in TENANTS:
            if tenant in present:
                self.updates[tenant] += 1
            else:
                for p in self.model.adapters(tenant):
                    p.grad = None

    def step(self, tokens, labels, who):
        route = F.one_hot(who, len(TENANTS)).float().to(self.device)
        tokens, labels = tokens.to(self.device), labels.to(self.device)
        self.opt.zero_grad()
        loss = F.cross_entropy(self.model(tokens, route), labels)
        loss.backward()
        self.settle(who)
        self.opt.step()
        torch_xla.sync()
        return loss

    def run(self):
        traffic = Traffic(self.cfg)
        for step in range(self.cfg.steps):
            loss = self.step(*traffic.batch())
            if (step + 1) % 8 == 0:
                counts = " ".join(f"{t}:{n}" for t, n in self.updates.items())
                print(f"step {step + 1:3d} loss {loss.item():.3f}  {counts}", flush=True)


if __name__ == "__main__":
    Tuner(LoraConfig()).run()
