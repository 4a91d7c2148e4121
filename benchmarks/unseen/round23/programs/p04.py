"""Small causal LM; an optimizer step is taken whenever enough tokens have been seen."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=40)
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--max-len", type=int, default=24)
    p.add_argument("--docs-per-batch", type=int, default=1)
    p.add_argument("--tokens-per-update", type=int, default=90)
    p.add_argument("--updates", type=int, default=45)
    p.add_argument("--lr", type=float, default=2e-1)
    p.add_argument("--warmup", type=int, default=6)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args([])


class DocStream:
    """Endless stream of padded document batches, lengths are heavy tailed."""

    def __init__(self, args):
        self.a = args
        self.rng = np.random.default_rng(args.seed)

    def document(self):
        n = int(np.clip(self.rng.lognormal(2.3, 0.9), 3, self.a.max_len))
        start, stride = self.rng.integers(1, self.a.vocab), self.rng.integers(1, 4)
        return 1 + (start + stride * np.arange(n)) % (self.a.vocab - 1)

    def __iter__(self):
        while True:
            ids = np.zeros((self.a.docs_per_batch, self.a.max_len), dtype=np.int64)
            for row in ids:
                d = self.document()
                row[: len(d)] = d
            yield torch.from_numpy(ids)


class PrefixLM(nn.Module):
    """Current token plus a learned decaying summary of everything before it."""

    def __init__(self, args):
        super().__init__()
        d = args.width
        self.tok = nn.Embedding(args.vocab, d)
        nn.init.normal_(self.tok.weight, std=0.1)
        t = torch.arange(args.max_len)
        self.register_buffer("gap", (t[:, None] - t[None]).float())
        self.register_buffer("causal", (t[:, None] >= t[None]).float())
        self.log_decay = nn.Parameter(torch.tensor([-1.0]))
        self.mlp = nn.Sequential(nn.Linear(2 * d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, ids):
        x = self.tok(ids)
        w = torch.exp(-F.softplus(self.log_decay) * self.gap.clamp(min=0)) * self.causal
        w = w / w.sum(-1, keepdim=True)
        h = self.mlp(torch.cat([x, w @ x], dim=-1))
        return (x + h) @ self.tok.weight.t()


def token_loss(model, ids):
    logits = model(ids)[:, :-1]
    target = ids[:, 1:]
    ce = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    return (ce * (target > 0)).sum()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = PrefixLM(args).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: min(1.0, (i + 1) / (args.warmup + 0.5)))

    update, seen, micro = 0, 0, 0
    reported = 0.0
    running = torch.zeros((), device=device)
    opt.zero_grad()
    for ids in DocStream(args):
        seen += int((ids[:, 1:] > 0).sum())
        micro += 1
        loss = token_loss(model, ids.to(device)) / args.tokens_per_update
        loss.backward()
        running += loss.detach()
        if seen < args.tokens_per_update:
            continue
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt, barrier=True)
        opt.zero_grad()
        sched.step()
        update += 1
        if update % 10 == 0:
            print(f"update {update} micro {micro} tokens {seen} loss {(running.item() - reported) / 10:.3f}")
            reported = running.item()
        seen, micro = 0, 0
        if update == args.updates:
            break


if __name__ == "__main__":
    main()
