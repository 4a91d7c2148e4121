"""FT-Transformer on tabular churn data with accelerate: accumulation, head-first warm start, eval per epoch."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    n_num: int = 6
    cards: tuple = (5, 3, 12)
    dim: int = 24
    depth: int = 2
    heads: int = 3
    batch: int = 16
    accumulate: int = 4
    epochs: int = 6
    frozen_epochs: int = 1
    lr: float = 2e-3
    seed: int = 20


def churn_table(n, cfg, seed):
    rng = np.random.default_rng(seed)
    num = rng.normal(size=(n, cfg.n_num)).astype(np.float32)
    cat = np.stack([rng.integers(0, c, n) for c in cfg.cards], axis=1)
    score = 1.2 * num[:, 0] - 0.8 * num[:, 1] * (cat[:, 1] == 2) + 0.6 * np.sin(2 * num[:, 2]) + 0.2 * (cat[:, 0] - 2)
    y = (score + 0.3 * rng.normal(size=n) > 0).astype(np.float32)
    return TensorDataset(torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y))


class Tokenizer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cfg.n_num, cfg.dim) * 0.3)
        self.bias = nn.Parameter(torch.zeros(cfg.n_num, cfg.dim))
        self.tables = nn.ModuleList([nn.Embedding(c, cfg.dim) for c in cfg.cards])
        self.cls = nn.Parameter(torch.zeros(1, 1, cfg.dim))

    def forward(self, num, cat):
        numeric = num.unsqueeze(-1) * self.weight + self.bias
        category = torch.stack([t(cat[:, i]) for i, t in enumerate(self.tables)], dim=1)
        return torch.cat([self.cls.expand(num.shape[0], -1, -1), numeric, category], dim=1)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.proj = nn.Linear(cfg.dim, cfg.dim)
        self.ffn = nn.Sequential(nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(), nn.Linear(2 * cfg.dim, cfg.dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        att = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)).softmax(dim=-1) @ v
        x = x + self.proj(att.transpose(1, 2).reshape(b, t, d))
        return x + self.ffn(self.n2(x))


class FTTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tokens = Tokenizer(cfg)
        self.layers = nn.ModuleList([Layer(cfg) for _ in range(cfg.depth)])
        self.head = nn.Sequential(nn.LayerNorm(cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, 1))

    def backbone_parameters(self):
        yield from self.tokens.parameters()
        yield from self.layers.parameters()

    def forward(self, num, cat):
        x = self.tokens(num, cat)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0]).squeeze(-1)


def set_trainable(params, flag):
    for p in params:
        p.requires_grad_(flag)


@torch.no_grad()
def evaluate(model, loader, accelerator):
    model.eval()
    right, seen = 0.0, 0
    for num, cat, y in loader:
        pred = model(num, cat) > 0
        pred, ref = accelerator.gather_for_metrics((pred, y > 0.5))
        right += (pred == ref).float().sum().item()
        seen += ref.numel()
    model.train()
    return right / seen


def main():
    cfg = Config()
    set_seed(cfg.seed)
    accelerator = Accelerator(gradient_accumulation_steps=cfg.accumulate)

    # 10 batches an epoch: the last update of an epoch is made from two batches
    train_loader = DataLoader(churn_table(160, cfg, 1), batch_size=cfg.batch, shuffle=True, drop_last=True)
    val_loader = DataLoader(churn_table(64, cfg, 2), batch_size=32)
    model = FTTransformer(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    updates = cfg.epochs * math.ceil(len(train_loader) / cfg.accumulate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda u: 0.1 + 0.85 * 0.5 * (1 + math.cos(math.pi * min(1.0, u / updates))))
    model, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, val_loader, scheduler)

    net = accelerator.unwrap_model(model)
    set_trainable(net.backbone_parameters(), False)

    for epoch in range(cfg.epochs):
        if epoch == cfg.frozen_epochs:
            set_trainable(net.backbone_parameters(), True)
        running = []
        for num, cat, y in train_loader:
            with accelerator.accumulate(model):
                loss = F.binary_cross_entropy_with_logits(model(num, cat), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            running.append(loss.detach())
        train_loss = float(np.mean([v.item() for v in running]))
        acc = evaluate(model, val_loader, accelerator)
        if accelerator.is_main_process:
            print(f"epoch {epoch} loss {train_loss:.4f} val acc {acc:.3f} lr {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
