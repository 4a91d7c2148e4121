import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

conf = {"items": 80, "dim": 24, "heads": 2, "blocks": 2, "len": 12, "bs": 8, "lr": 1e-3}


class SelfAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in (q, k, v))
        s = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5
        s = s.masked_fill(mask, -1e9)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class SASRec(nn.Module):
    def __init__(self, items, dim, heads, blocks, length):
        super().__init__()
        self.item = nn.Embedding(items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(length, dim)
        self.att = nn.ModuleList([SelfAttention(dim, heads) for _ in range(blocks)])
        self.ln_a = nn.ModuleList([nn.LayerNorm(dim) for _ in range(blocks)])
        self.ln_f = nn.ModuleList([nn.LayerNorm(dim) for _ in range(blocks)])
        self.ffn = nn.ModuleList([nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
                                  for _ in range(blocks)])
        self.last = nn.LayerNorm(dim)

    def log2feats(self, seq):
        b, t = seq.shape
        h = self.item(seq) * self.item.embedding_dim ** 0.5
        h = h + self.pos(torch.arange(t, device=seq.device))
        mask = torch.triu(torch.ones(t, t, device=seq.device), diagonal=0).bool()
        for att, la, ffn, lf in zip(self.att, self.ln_a, self.ffn, self.ln_f):
            h = h + att(la(h), mask)
            h = h + ffn(lf(h))
        return self.last(h)

    def forward(self, seq, pos, neg):
        f = self.log2feats(seq)
        return (f * self.item(pos)).sum(-1), (f * self.item(neg)).sum(-1)


def bpr(pos, neg):
    return -F.logsigmoid(pos - neg).mean()


def sample(c):
    return [torch.randint(1, c["items"] + 1, (c["bs"], c["len"])) for _ in range(3)]


torch.manual_seed(0)
device = torch_xla.device()
model = SASRec(conf["items"], conf["dim"], conf["heads"], conf["blocks"], conf["len"]).to(device)
opt = torch.optim.Adam(model.parameters(), lr=conf["lr"], betas=(0.9, 0.98))
for step in range(5):
    seq, pos, neg = (t.to(device) for t in sample(conf))
    loss = bpr(*model(seq, pos, neg))
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    if step % 2 == 0:
        print("step", step, "bpr", loss.item())
