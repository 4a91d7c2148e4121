"""STAMP-style next-item model for shop sessions.

Sessions come in time order, so the night hours are short clicks and the
evening hours are long browsing sessions.  The optimizer steps once a given
number of target items has been seen, which keeps the update size comparable
over the day.
"""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD = 0


def make_sessions(n, n_items, max_len, rng):
    """Random walks over a ring of items, length depends on the hour."""
    sessions = []
    for i in range(n):
        hour = (i / n * 96) % 24
        mean = 4.0 + 12.0 * max(0.0, math.sin((hour - 6) / 24 * 2 * math.pi))
        length = int(np.clip(rng.lognormal(math.log(mean), 0.5), 2, max_len + 1))
        item = rng.integers(1, n_items)
        walk = [item]
        for _ in range(length - 1):
            item = (item + rng.choice([1, 1, 2, 7])) % (n_items - 1) + 1
            walk.append(item)
        sessions.append(np.array(walk, dtype=np.int64))
    return sessions


def collate(chunk, max_len):
    x = np.full((len(chunk), max_len), PAD, dtype=np.int64)
    y = np.full((len(chunk), max_len), PAD, dtype=np.int64)
    for row, s in enumerate(chunk):
        n = len(s) - 1
        x[row, :n] = s[:-1]
        y[row, :n] = s[1:]
    return torch.from_numpy(x), torch.from_numpy(y), int((y != PAD).sum())


class STAMP(nn.Module):
    """Short-term attention/memory priority: session mean against last click."""

    def __init__(self, n_items, dim=24):
        super().__init__()
        self.items = nn.Embedding(n_items, dim, padding_idx=PAD)
        nn.init.normal_(self.items.weight, std=0.1)
        self.general = nn.Linear(dim, dim)
        self.current = nn.Linear(dim, dim)

    def forward(self, x):
        clicks = self.items(x)
        count = torch.arange(1, x.shape[1] + 1, device=x.device).view(1, -1, 1)
        memory = clicks.cumsum(dim=1) / count
        joint = torch.tanh(self.general(memory)) * torch.tanh(self.current(clicks))
        return 4.0 * joint @ self.items.weight.t()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=120)
    ap.add_argument("--max-len", type=int, default=16)
    ap.add_argument("--rows", type=int, default=8)
    ap.add_argument("--target-items", type=int, default=220)
    ap.add_argument("--updates", type=int, default=22)
    args = ap.parse_args()

    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()

    sessions = make_sessions(960, args.items, args.max_len, rng)
    model = STAMP(args.items).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 5))

    running = torch.zeros((), device=device)
    seen, update = 0, 0
    for start in range(0, len(sessions) - args.rows + 1, args.rows):
        x, y, n_targets = collate(sessions[start:start + args.rows], args.max_len)
        x, y = x.to(device), y.to(device)

        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PAD, reduction="sum")
        (loss / args.target_items).backward()
        running += loss.detach()
        seen += n_targets
        if seen < args.target_items:
            continue

        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad()
        torch_xla.sync()

        update += 1
        if update % 5 == 0:
            print(f"update {update:3d}  nll/item {running.item() / seen:.3f}  lr {sched.get_last_lr()[0]:.2e}")
        running.zero_()
        seen = 0
        if update == args.updates:
            break


if __name__ == "__main__":
    main()
