import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.distributed.parallel_loader as pl

VOCAB, D, HEADS, SEQ, BATCH = 40, 32, 4, 12, 8


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)

    def split(self, t):
        b, s, d = t.shape
        return t.view(b, s, self.h, d // self.h).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q = self.split(self.q(x))
        k = self.split(self.k(x))
        v = self.split(self.v(x))
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        w = w + mask
        w = F.softmax(w, dim=-1)
        y = torch.matmul(w, v)
        y = y.permute(0, 2, 1, 3).reshape(x.shape)
        return self.o(y)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = Attention(d, heads)
        self.ln2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def forward(self, x, mask):
        x = x + self.attn(self.ln1(x), mask)
        return x + self.fc2(F.relu(self.fc1(self.ln2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, D)
        self.pos = nn.Parameter(torch.zeros(SEQ, D))
        self.blocks = nn.ModuleList([Block(D, HEADS) for _ in range(2)])
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, VOCAB)
        mask = torch.triu(torch.full((SEQ, SEQ), -1e9), 1)
        self.register_buffer("mask", mask)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for b in self.blocks:
            x = b(x, self.mask)
        return self.head(self.norm(x))


def init_by_name(model):
    for name, p in sorted(model.named_parameters()):
        g = torch.Generator().manual_seed(p.numel() + 7 * p.dim())
        with torch.no_grad():
            p.copy_(0.08 * torch.randn(p.shape, generator=g))


def get_loader(device):
    g = torch.Generator().manual_seed(5)
    ids = torch.randint(0, VOCAB, (BATCH * 4, SEQ + 1), generator=g)
    ds = TensorDataset(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
    return pl.MpDeviceLoader(DataLoader(ds, batch_size=BATCH), device)


def train():
    device = torch_xla.device()
    model = LM()
    init_by_name(model)
    model = model.to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for x, y in get_loader(device):
        optim.zero_grad()
        loss = F.cross_entropy(model(x).view(-1, VOCAB), y.view(-1))
        loss.backward()
        xm.optimizer_step(optim)
        xm.add_step_closure(lambda l: print("loss", round(l.item(), 6)), args=(loss.detach(),))


if __name__ == "__main__":
    train()
