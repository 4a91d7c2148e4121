"""Tiny translation model; updates happen after a given number of target tokens, as in fairseq's big-batch recipes."""
import argparse
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

PAD, BOS = 0, 1


class Positional(nn.Module):
    def __init__(self, dim, max_len=64):
        super().__init__()
        pos = torch.arange(max_len)[:, None]
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(max_len, dim)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


class Seq2Seq(nn.Module):
    def __init__(self, vocab=50, dim=24, ff=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = Positional(dim)
        self.encoder = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))
        self.past = nn.Conv1d(dim, dim, 3)
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out = nn.Linear(2 * dim, vocab)

    def forward(self, src, tgt_in):
        memory = self.encoder(self.pos(self.emb(src)))
        h = self.pos(self.emb(tgt_in)).transpose(1, 2)
        h = torch.relu(self.past(nn.functional.pad(h, (2, 0)))).transpose(1, 2)
        score = self.query(h) @ self.key(memory).transpose(1, 2) / math.sqrt(h.shape[-1])
        score = score.masked_fill((src == PAD)[:, None], -1e4)
        return self.out(torch.cat([h, score.softmax(-1) @ memory], dim=-1))


class ParallelText(torch.utils.data.IterableDataset):
    """Fixed [batch, length] blocks, padded at the end of each sentence."""

    def __init__(self, batch, length, vocab=50, seed=0):
        self.batch, self.length, self.vocab, self.seed = batch, length, vocab, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        while True:
            hi = 2 + int((self.length - 2) * torch.rand(1, generator=g) ** 2)
            lens = torch.randint(2, hi + 1, (self.batch,), generator=g)
            src = torch.randint(2, self.vocab, (self.batch, self.length), generator=g)
            keep = torch.arange(self.length)[None] < lens[:, None]
            src = src * keep
            yield src, src.flip(1) * keep.flip(1), int(lens.sum())


class InverseSqrt:
    def __init__(self, opt, peak, warmup):
        self.opt, self.peak, self.warmup, self.n = opt, peak, warmup, 0

    def step(self):
        self.n += 1
        lr = self.peak * min(self.n / self.warmup, (self.warmup / self.n) ** 0.5)
        for group in self.opt.param_groups:
            group["lr"] = lr
        return lr


def main(args):
    torch.manual_seed(0)
    device = xm.xla_device()
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    sched = InverseSqrt(opt, args.lr, warmup=6)
    ce = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    loader = torch.utils.data.DataLoader(ParallelText(args.batch, args.length), batch_size=None)
    xm.mark_step()

    updates, tokens, running = 0, 0, None
    opt.zero_grad()
    for src, tgt, n_tokens in loader:
        src, tgt = src.to(device), tgt.to(device)
        bos = torch.full_like(tgt[:, :1], BOS)
        logits = model(src, torch.cat([bos, tgt[:, :-1]], dim=1))
        loss = ce(logits.flatten(0, 1), tgt.flatten()) / args.tokens_per_update
        loss.backward()
        running = loss.detach() if running is None else running + loss.detach()
        tokens += n_tokens
        if tokens < args.tokens_per_update:
            continue
        lr = sched.step()
        opt.step()
        opt.zero_grad()
        xm.mark_step()
        updates += 1
        if updates % 5 == 0:
            print(f"update {updates} tokens {tokens} loss {running.item():.4f} lr {lr:.5f}")
        tokens, running = 0, None
        if updates == args.updates:
            break


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--updates", type=int, default=30)
    p.add_argument("--tokens-per-update", type=int, default=210)
    p.add_argument("--batch", type=int, default=6)
    p.add_argument("--length", type=int, default=20)
    p.add_argument("--lr", type=float, default=4e-3)
    main(p.parse_args())
