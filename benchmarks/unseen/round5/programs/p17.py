"""Mixture-of-experts LM in bfloat16 autocast with a schedule for the experts."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class MoEConfig:
    vocab: int = 64
    dim: int = 24
    seq: int = 16
    batch: int = 4
    experts: int = 4
    layers: int = 1
    dropout: float = 0.1
    capacity_start: float = 2.0
    capacity_end: float = 1.0
    warmup: int = 8
    steps: int = 32
    lr: float = 3e-3
    balance: float = 0.01


class Experts(nn.Module):
    """Top-1 routing; an expert takes at most its share of tokens times a factor."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.capacity = cfg.capacity_start
        self.router = nn.Linear(cfg.dim, cfg.experts, bias=False)
        self.w1 = nn.Parameter(0.1 * torch.randn(cfg.experts, cfg.dim, 2 * cfg.dim))
        self.w2 = nn.Parameter(0.1 * torch.randn(cfg.experts, 2 * cfg.dim, cfg.dim))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        n, e = flat.shape[0], self.cfg.experts
        places = math.ceil(self.capacity * n / e)
        prob = torch.softmax(self.router(flat).float(), dim=-1)
        gate, choice = prob.max(dim=-1)
        onehot = F.one_hot(choice, e).float()
        order = (onehot.cumsum(0) - 1.0) * onehot
        fits = (order < places).float() * onehot
        slot = F.one_hot(order.sum(-1).long().clamp_max(places - 1), places).float()
        dispatch = fits[:, :, None] * slot[:, None, :]
        expert_in = torch.einsum("nep,nd->epd", dispatch, flat.float())
        h = F.gelu(torch.einsum("epd,edf->epf", expert_in, self.w1))
        out = torch.einsum("epf,efd->epd", h, self.w2)
        y = torch.einsum("nep,epd->nd", dispatch, out.float()) * gate[:, None]
        balance = e * (onehot.mean(0) * prob.mean(0)).sum()
        return y.view_as(x), balance


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.q = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.experts = Experts(cfg)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        q, k, v = self.q(self.n1(x)).chunk(3, dim=-1)
        score = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        hide = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1) * -1e4
        x = x + self.drop(torch.softmax(score.float() + hide, dim=-1) @ v.float())
        y, balance = self.experts(self.n2(x))
        return x + self.drop(y), balance


class MoELM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, ids):
        x, aux = self.emb(ids), 0.0
        for block in self.blocks:
            x, b = block(x)
            aux = aux + b
        return self.head(x), aux


class CapacitySchedule:
    """Roomy experts while the router settles, tight ones towards the end of training."""

    def __init__(self, model, cfg):
        self.layers = [m for m in model.modules() if isinstance(m, Experts)]
        self.cfg = cfg

    def value(self, step):
        done = max(0, step - self.cfg.warmup) / (self.cfg.steps - self.cfg.warmup)
        return self.cfg.capacity_start + done * (self.cfg.capacity_end - self.cfg.capacity_start)

    def step(self, step):
        for layer in self.layers:
            layer.capacity = self.value(step)


def tokens(cfg, gen):
    start = torch.randint(cfg.vocab, (cfg.batch, 1), generator=gen)
    stride = torch.randint(1, 5, (cfg.batch, 1), generator=gen)
    return (start + stride * torch.arange(cfg.seq + 1)) % cfg.vocab


def main(cfg=MoEConfig()):
    torch.manual_seed(0)
    device, gen = torch_xla.device(), torch.Generator().manual_seed(1)
    model = MoELM(cfg).to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    lr = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(0.9, (s + 1) / cfg.warmup * 0.9))
    capacity = CapacitySchedule(model, cfg)
    for step in range(cfg.steps):
        ids = tokens(cfg, gen).to(device)
        capacity.step(step)
        with torch.autocast("xla", dtype=torch.bfloat16):
            logits, aux = model(ids[:, :-1])
        nll = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss = nll + cfg.balance * aux
        opt.zero_grad()
        loss.backward()
        opt.step()
        lr.step()
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            print(f"step {step + 1:3d} nll {nll.item():.3f} balance {aux.item():.2f}", flush=True)


if __name__ == "__main__":
    main()
