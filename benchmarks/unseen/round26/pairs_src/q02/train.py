# Fine-tune a tiny text classifier: head first, then the upper encoder layer.
import math
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn

VOCAB, SEQ, WIDTH, CLASSES = 60, 12, 16, 4
TOTAL_STEPS = 8
SCHEDULE = {
    # step: (batch size, number of trainable blocks counted from the top)
    0: (8, 0),
    4: (12, 1),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x, pad):
        b, t, w = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.reshape(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        att = q @ k.transpose(-1, -2) / math.sqrt(w // self.heads)
        att = att.masked_fill(pad[:, None, None, :], -1e9).softmax(-1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(torch.relu(self.up(self.ln2(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Parameter(0.02 * torch.randn(SEQ, WIDTH))
        self.blocks = nn.ModuleList([Block(WIDTH, 2) for _ in range(2)])
        self.final = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, ids):
        pad = ids == 0
        x = self.tok(ids) + self.pos
        for blk in self.blocks:
            x = blk(x, pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        pooled = (self.final(x) * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.head(pooled)


def set_trainable(model, n_top):
    for p in model.parameters():
        p.requires_grad = False
    for m in [model.final, model.head] + list(model.blocks)[len(model.blocks) - n_top:]:
        for p in m.parameters():
            p.requires_grad = True


def draw(rng, batch):
    ids = rng.integers(1, VOCAB, size=(batch, SEQ))
    for row, n in enumerate(rng.integers(4, SEQ + 1, size=batch)):
        ids[row, n:] = 0
    return torch.from_numpy(ids), torch.from_numpy(rng.integers(0, CLASSES, size=batch))


def run():
    random.seed(3)
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    dev = torch_xla.device()
    net = Classifier().to(dev)
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
    xm.mark_step()

    batch = None
    for step in range(TOTAL_STEPS):
        if step in SCHEDULE:
            batch, top = SCHEDULE[step]
            set_trainable(net, top)
        ids, y = draw(rng, batch)
        ids, y = ids.to(dev), y.to(dev)
        opt.zero_grad(set_to_none=True)
        loss = criterion(net(ids), y)
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, batch, round(loss.item(), 4))


if __name__ == "__main__":
    run()
