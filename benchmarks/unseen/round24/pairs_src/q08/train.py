import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Config:
    vocab: int = 24
    emb: int = 16
    hidden: int = 24
    src_len: int = 6
    tgt_len: int = 4
    batch: int = 8
    lr: float = 0.5
    weight_decay: float = 1e-4
    ss_k: float = 3.0
    steps: int = 7
    seed: int = 5


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.emb, padding_idx=PAD)
        self.proj = nn.Linear(cfg.emb, cfg.hidden)

    def forward(self, src):
        h = torch.tanh(self.proj(self.emb(src)))
        mask = (src != PAD).unsqueeze(-1).float()
        pooled = (h * mask).sum(1) / mask.sum(1)
        return h, pooled


def attend(query, memory, pad):
    e = torch.bmm(memory, query.unsqueeze(2)).squeeze(2)
    a = e.masked_fill(pad, -1e9).softmax(-1)
    return torch.bmm(a.unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.emb)
        self.cell = nn.GRUCell(cfg.emb + cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.vocab)

    def step(self, token, state, memory, pad):
        context = attend(state, memory, pad)
        state = self.cell(torch.cat([self.emb(token), context], -1), state)
        return self.out(state), state


class Seq2Seq(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)

    def forward(self, src, tgt, teacher_prob):
        memory, state = self.encoder(src)
        pad = src == PAD
        token = torch.full_like(tgt[:, 0], BOS)
        logits = []
        for t in range(self.cfg.tgt_len):
            out, state = self.decoder.step(token, state, memory, pad)
            logits.append(out)
            if random.random() < teacher_prob:
                token = tgt[:, t]
            else:
                token = out.argmax(-1)
        return torch.stack(logits, 1)


def teacher_probability(step, k):
    return k / (k + math.exp(step / k))


def make_batch(cfg, rng):
    src = torch.randint(3, cfg.vocab, (cfg.batch, cfg.src_len), generator=rng)
    lens = torch.randint(3, cfg.src_len + 1, (cfg.batch, 1), generator=rng)
    src = src.masked_fill(torch.arange(cfg.src_len)[None] >= lens, PAD)
    tgt = src.flip(1)[:, : cfg.tgt_len].clone()
    tgt[:, -1] = EOS
    return src, tgt


def run(cfg):
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    rng = torch.Generator().manual_seed(cfg.seed)
    device = torch_xla.device()
    model = Seq2Seq(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    xm.mark_step()
    for step in range(cfg.steps):
        src, tgt = (x.to(device) for x in make_batch(cfg, rng))
        logits = model(src, tgt, teacher_probability(step, cfg.ss_k))
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    run(Config())
