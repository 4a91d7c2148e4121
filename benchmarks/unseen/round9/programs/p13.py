"""Decoder-only translation model; an update is made every `max_tokens` target tokens."""
import dataclasses
import itertools
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD, SEP, EOS = 0, 1, 2


@dataclasses.dataclass
class Config:
    vocab: int = 64
    d_model: int = 32
    heads: int = 4
    layers: int = 2
    max_words: int = 14
    sentences: int = 8
    max_tokens: int = 300
    warmup: int = 4
    peak_lr: float = 2e-3
    updates: int = 24

    @property
    def seq(self):
        return 2 * self.max_words + 1


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.d_model
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 2 * d, bias=False), nn.Linear(2 * d, d, bias=False)
        self.heads = cfg.heads

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(F.rms_norm(x, (d,))).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + mask, -1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (d,)))))


class PrefixTranslator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(cfg.seq, cfg.d_model))
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.out = nn.Linear(cfg.d_model, cfg.vocab, bias=False)
        self.register_buffer("mask", torch.full((cfg.seq, cfg.seq), -1e4).triu(1))

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.out(x)


class Corpus:
    """Target is the reversed source; sentences come grouped by length, short ones first."""

    def __init__(self, cfg, seed=11):
        self.cfg, self.rng = cfg, random.Random(seed)

    def __iter__(self):
        cfg = self.cfg
        for batch in itertools.count():
            around = 3 + batch // 8 + self.rng.randint(-1, 1)
            inputs, targets, ntokens = [], [], 0
            for _ in range(cfg.sentences):
                n = max(2, min(cfg.max_words - 1, around + self.rng.randint(-1, 1)))
                words = [self.rng.randrange(3, cfg.vocab) for _ in range(n)]
                full = words + [SEP] + words[::-1] + [EOS]
                pad = [PAD] * (cfg.seq - len(full) + 1)
                inputs.append(full[:-1] + pad)
                targets.append([PAD] * n + full[n + 1:] + pad)
                ntokens += n + 1
            yield torch.tensor(inputs), torch.tensor(targets), ntokens


def inverse_sqrt(cfg, update):
    if update < cfg.warmup:
        return cfg.peak_lr * (update + 1) / cfg.warmup
    return cfg.peak_lr * math.sqrt(cfg.warmup / update)


def train(cfg):
    device = torch_xla.device()
    torch.manual_seed(1)
    model = PrefixTranslator(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.peak_lr, betas=(0.9, 0.98))
    data = iter(Corpus(cfg))

    for update in range(cfg.updates):
        for group in opt.param_groups:
            group["lr"] = inverse_sqrt(cfg, update)
        opt.zero_grad()
        seen, total = 0, torch.zeros((), device=device)
        while seen < cfg.max_tokens:
            inputs, targets, ntokens = next(data)
            logits = model(inputs.to(device))
            loss = F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten(), ignore_index=PAD, reduction="sum")
            loss.backward()
            total += loss.detach()
            seen += ntokens
        for p in model.parameters():
            p.grad.div_(seen)
        opt.step()
        xm.mark_step()
        if update % 4 == 0:
            print(f"update {update:3d} | tokens {seen} | nll {total.item() / seen:.3f}")


if __name__ == "__main__":
    train(Config())
