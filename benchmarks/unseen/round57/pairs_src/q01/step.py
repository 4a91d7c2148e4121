"""Fine-tunes a small causal language model on tokenised text."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from transformers import get_linear_schedule_with_warmup


class Config:
    vocab_size = 96
    block_size = 32
    n_layer = 1
    n_head = 2
    n_embd = 32
    bias = False


class CausalSelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_head = cfg.n_head
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=cfg.bias)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        mask = torch.tril(torch.ones(cfg.block_size, cfg.block_size, dtype=torch.bool))
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (z.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for z in (q, k, v))
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(dim=-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, c)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.attn = CausalSelfAttention(cfg)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd, bias=cfg.bias),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * cfg.n_embd, cfg.n_embd, bias=cfg.bias),
        )

    def forward(self, x):
        h = self.ln(x)
        return x + self.attn(h) + self.mlp(h)


class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.wte = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.h = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln_f = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, idx):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def batches(n, batch_size, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        chunk = torch.randint(0, cfg.vocab_size, (batch_size, cfg.block_size + 1), generator=g)
        yield chunk[:, :-1], chunk[:, 1:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--micro-batch", type=int, default=4)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--max-updates", type=int, default=8)
    ap.add_argument("--warmup", type=int, default=1)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()

    torch.manual_seed(0)
    cfg = Config()
    device = torch_xla.device()
    model = GPT(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = get_linear_schedule_with_warmup(optimizer, args.warmup, args.max_updates)
    torch_xla.sync()

    log = []
    update, running = 0, torch.zeros((), device=device)
    loader = batches(args.max_updates * args.accum, args.micro_batch, cfg, seed=1)
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / args.accum
        loss.backward()
        running = running + loss.detach()
        if (i + 1) % args.accum == 0:
            optimizer.step()
            optimizer.zero_grad()
            update += 1
        scheduler.step()
        if (i + 1) % args.accum == 0:
            torch_xla.sync()
            log.append((update, running, scheduler.get_last_lr()[0]))
            running = torch.zeros((), device=device)

    for update, value, lr in log:
        xm.master_print(f"update {update} loss {value.item():.4f} lr {lr:.2e}")


if __name__ == "__main__":
    main()
