"""Fully sharded training (torch_xla.distributed.fsdp) with gradient accumulation, clipping and a validation pass."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP

ACCUM, PATCHES, DIM, CLASSES, B = 3, 16, 24, 6, 8


class MixerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.tok = nn.Sequential(nn.Linear(PATCHES, 32), nn.GELU(), nn.Linear(32, PATCHES))
        self.ch = nn.Sequential(nn.Linear(DIM, 48), nn.GELU(), nn.Linear(48, DIM))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, wrap, depth=2):
        super().__init__()
        self.stem = nn.Linear(12, DIM)
        self.blocks = nn.ModuleList(wrap(MixerBlock()) for _ in range(depth))
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mean(1))


def synthetic(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (n, B), generator=g)
    proto = torch.randn(CLASSES, PATCHES, 12, generator=torch.Generator().manual_seed(99))
    x = proto[y] + 0.7 * torch.randn(n, B, PATCHES, 12, generator=g)
    return list(zip(x, y))


def train_epoch(model, opt, data, dev):
    model.train()
    opt.zero_grad(set_to_none=True)
    for i, (x, y) in enumerate(data):
        loss = F.cross_entropy(model(x.to(dev)), y.to(dev)) / ACCUM
        loss.backward()
        if (i + 1) % ACCUM == 0:
            model.clip_grad_norm_(1.0)
            opt.step()
            opt.zero_grad(set_to_none=True)
        torch_xla.sync()
    return loss


@torch.no_grad()
def validate(model, data, dev):
    model.eval()
    right = torch.zeros(1).to(dev)
    for x, y in data:
        right += (model(x.to(dev)).argmax(1) == y.to(dev)).sum()
        torch_xla.sync()
    return right.item() / (len(data) * B)


def main(epochs=4):
    dist.init_process_group("xla", init_method="xla://")
    torch.manual_seed(0)
    dev = torch_xla.device()
    wrap = lambda m: FSDP(m.to(dev), compute_dtype=torch.float32)
    model = wrap(Mixer(wrap))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train, val = synthetic(ACCUM * 3, 0), synthetic(2, 1)
    torch_xla.sync()
    for epoch in range(epochs):
        loss = train_epoch(model, opt, train, dev)
        acc = validate(model, val, dev)
        xm.master_print(f"epoch {epoch} loss {loss.item() * ACCUM:.4f} val {acc:.3f}")


if __name__ == "__main__":
    import torch_xla.distributed.xla_backend  # noqa: F401 (registers the backend)
    import os
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29731")
    main()
