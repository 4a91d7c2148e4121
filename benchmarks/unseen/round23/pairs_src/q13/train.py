"""Character LM with segment-level recurrence (hidden state memory)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

TEXT = ("the quick brown fox jumps over the lazy dog and runs away from "
        "the angry bear that lives behind the old wooden house . ") * 40


class SegmentDataset(Dataset):
    """Contiguous segments laid out so that batch i follows batch i-1."""

    def __init__(self, text, seg_len, lanes):
        self.vocab = sorted(set(text))
        stoi = {c: i for i, c in enumerate(self.vocab)}
        ids = torch.tensor([stoi[c] for c in text])
        per_lane = (len(ids) - 1) // lanes
        self.x = ids[:per_lane * lanes].view(lanes, per_lane)
        self.y = ids[1:per_lane * lanes + 1].view(lanes, per_lane)
        self.seg_len, self.lanes = seg_len, lanes
        self.nseg = per_lane // seg_len

    def __len__(self):
        return self.nseg * self.lanes

    def __getitem__(self, i):
        seg, lane = divmod(i, self.lanes)
        s = slice(seg * self.seg_len, (seg + 1) * self.seg_len)
        return self.x[lane, s], self.y[lane, s]


class RecurrentAttention(nn.Module):
    def __init__(self, d, heads, max_dist):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.dist_bias = nn.Parameter(torch.zeros(heads, max_dist))

    def forward(self, x, mem):
        b, t, d = x.shape
        ctx = x if mem is None else torch.cat([mem, x], dim=1)
        m = ctx.size(1) - t
        q = self.q(x).view(b, t, self.h, self.dk).transpose(1, 2)
        k, v = self.kv(ctx).view(b, m + t, 2, self.h, self.dk).permute(2, 0, 3, 1, 4)
        dist = (torch.arange(t)[:, None] + m) - torch.arange(m + t)[None, :]
        future = (dist < 0).to(x.device)
        dist = dist.clamp(min=0).to(x.device)
        scores = q @ k.transpose(-1, -2) * self.dk ** -0.5
        scores = scores + self.dist_bias[:, dist]
        scores = scores.masked_fill(future, -1e9)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class MemoryLM(nn.Module):
    def __init__(self, vocab, d, heads, layers, mem_len, seg_len):
        super().__init__()
        self.mem_len = mem_len
        self.emb = nn.Embedding(vocab, d)
        self.attn = nn.ModuleList(
            RecurrentAttention(d, heads, mem_len + seg_len) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, mems):
        h = self.emb(ids)
        new_mems = []
        for i, (attn, norm) in enumerate(zip(self.attn, self.norm)):
            mem = mems[i] if mems is not None else None
            hist = h.detach() if mem is None else torch.cat([mem, h.detach()], dim=1)
            start = max(0, hist.size(1) - self.mem_len)
            new_mems.append(hist[:, start:])
            h = h + attn(norm(h), mem)
        return self.head(h), new_mems


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seg-len", type=int, default=8)
    p.add_argument("--mem-len", type=int, default=32)
    p.add_argument("--lanes", type=int, default=4)
    p.add_argument("--max-steps", type=int, default=8)
    args = p.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    ds = SegmentDataset(TEXT, args.seg_len, args.lanes)
    loader = pl.MpDeviceLoader(
        DataLoader(ds, batch_size=args.lanes, shuffle=False, drop_last=True), device)
    model = MemoryLM(len(ds.vocab), 16, 2, 2, args.mem_len, args.seg_len).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)

    mems = None
    for step, (x, y) in enumerate(loader):
        if step == args.max_steps:
            break
        opt.zero_grad()
        logits, mems = model(x, mems)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        xm.optimizer_step(opt)
        xm.add_step_closure(
            lambda s, l: print(f"{s}: {l.item():.4f}"), args=(step, loss.detach()))


if __name__ == "__main__":
    main()
