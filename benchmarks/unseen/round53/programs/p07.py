"""Protein solubility classification with length-bucketed batches and two-fold gradient accumulation."""
import bisect
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

AA = "ACDEFGHIKLMNPQRSTVWY"
PAD = 0
BUCKETS = (32, 48, 80)
TOKENS_PER_BATCH = 480
ACCUM = 2


class Proteins(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            length = int(min(BUCKETS[-1], max(15, rng.gammavariate(4.0, 11.0))))
            label = rng.random() < 0.5
            weights = [3 if (a in "DEKR") == label else 1 for a in AA]
            seq = rng.choices(range(1, len(AA) + 1), weights, k=length)
            self.items.append((torch.tensor(seq), int(label)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class BucketSampler(torch.utils.data.Sampler):
    def __init__(self, ds, seed):
        self.rng = random.Random(seed)
        self.pools = {b: [] for b in BUCKETS}
        for i, (seq, _) in enumerate(ds.items):
            self.pools[BUCKETS[bisect.bisect_left(BUCKETS, len(seq))]].append(i)

    def __iter__(self):
        out = []
        for b, pool in self.pools.items():
            pool = pool[:]
            self.rng.shuffle(pool)
            bs = TOKENS_PER_BATCH // b
            chunks = [pool[i:i + bs] for i in range(0, len(pool) - bs + 1, bs)]
            out += [chunks[i:i + ACCUM] for i in range(0, len(chunks) - ACCUM + 1, ACCUM)]
        self.rng.shuffle(out)
        for group in out:
            yield from group


def collate(batch):
    longest = max(len(s) for s, _ in batch)
    width = BUCKETS[bisect.bisect_left(BUCKETS, longest)]
    ids = torch.full((len(batch), width), PAD)
    for row, (seq, _) in zip(ids, batch):
        row[:len(seq)] = seq
    return ids, torch.tensor([y for _, y in batch])


class Encoder(nn.Module):
    def __init__(self, dim=24, heads=3, depth=1):
        super().__init__()
        self.heads = heads
        self.emb = nn.Embedding(len(AA) + 1, dim, padding_idx=PAD)
        self.pos = nn.Embedding(BUCKETS[-1], dim)
        self.layers = nn.ModuleList(nn.ModuleDict(dict(
            n1=nn.LayerNorm(dim), qkv=nn.Linear(dim, 3 * dim), o=nn.Linear(dim, dim),
            n2=nn.LayerNorm(dim), up=nn.Linear(dim, 2 * dim), down=nn.Linear(2 * dim, dim),
        )) for _ in range(depth))
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        b, t = ids.shape
        keep = ids.ne(PAD)
        bias = torch.where(keep, 0.0, -1e4)[:, None, None, :]
        x = self.emb(ids) + self.pos(torch.arange(t, device=ids.device))
        for lyr in self.layers:
            q, k, v = lyr["qkv"](lyr["n1"](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            att = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias).softmax(-1)
            x = x + lyr["o"]((att @ v).transpose(1, 2).reshape(b, t, -1))
            x = x + lyr["down"](F.gelu(lyr["up"](lyr["n2"](x))))
        w = keep.unsqueeze(-1).to(x.dtype)
        return self.head((x * w).sum(1) / w.sum(1))


def main():
    random.seed(9)
    torch.manual_seed(9)
    device = torch_xla.device()
    ds = Proteins(420, seed=9)
    loader = torch.utils.data.DataLoader(ds, batch_sampler=BucketSampler(ds, seed=2), collate_fn=collate)
    model = Encoder().to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    micro, update = 0, 0
    for epoch in range(2):
        for ids, y in loader:
            if micro >= 64:
                break
            ids, y = ids.to(device), y.to(device)
            loss = F.cross_entropy(model(ids), y) / ACCUM
            loss.backward()
            micro += 1
            if micro % ACCUM == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad(set_to_none=True)
                update += 1
            torch_xla.sync()
            if micro % 12 == 0:
                print(f"epoch {epoch} update {update:3d} shape {tuple(ids.shape)} loss {ACCUM * loss.item():.4f}")
    xm.wait_device_ops()


if __name__ == "__main__":
    main()
