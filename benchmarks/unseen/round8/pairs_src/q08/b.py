import math
import torch, torch.nn as nn, torch.nn.functional as F
import xdump

V, D, EXP, FF, B, MAXT = 61, 24, 6, 32, 4, 64
LENGTHS = [[17, 24, 9, 21], [19, 11, 27, 16]]
BUCKETS = (16, 24, 32, 48, 64)


def padded_length(lengths):
    n = max(lengths)
    return min(b for b in BUCKETS if b >= n)


class MoE(nn.Module):
    def __init__(self, cf=1.25):
        super().__init__()
        self.cf = cf
        self.gate = nn.Linear(D, EXP, bias=False)
        self.w1 = nn.Parameter(torch.randn(EXP, D, FF) * 0.1)
        self.w2 = nn.Parameter(torch.randn(EXP, FF, D) * 0.1)

    def forward(self, x):
        n = x.shape[0]
        cap = math.ceil(self.cf * n / EXP)
        p = self.gate(x).softmax(-1)
        w, idx = p.max(-1)
        hot = F.one_hot(idx, EXP).float()
        pos = (hot.cumsum(0) - 1) * hot
        keep = hot * (pos < cap).float()
        slot = F.one_hot(pos.sum(-1).long().clamp(max=cap - 1), cap).float()
        disp = keep[:, :, None] * slot[:, None, :]
        xe = torch.einsum("nec,nd->ecd", disp, x)
        ye = torch.bmm(F.relu(torch.bmm(xe, self.w1)), self.w2)
        y = torch.einsum("nec,ecd->nd", disp * w[:, None, None], ye)
        aux = EXP * (hot.mean(0) * p.mean(0)).sum()
        return y, aux


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(torch.randn(MAXT, D) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.moes = nn.ModuleList(MoE() for _ in range(2))
        self.head = nn.Linear(D, V)

    def forward(self, ids):
        b, t = ids.shape
        x = (self.tok(ids) + self.pos[:t]).reshape(b * t, D)
        aux = 0
        for n, m in zip(self.norms, self.moes):
            y, a = m(n(x))
            x, aux = x + y, aux + a
        return self.head(x), aux


xdump.seed(8)
dev = xdump.device()
net = Net().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
xdump.sync()


def batch(i):
    g = torch.Generator().manual_seed(80 + i)
    t = padded_length(LENGTHS[i])
    ids = torch.zeros(B, t, dtype=torch.long)
    for r, n in enumerate(LENGTHS[i]):
        ids[r, :n] = torch.randint(1, V, (n,), generator=g)
    return ids.to(dev)


def step(ids):
    opt.zero_grad()
    logits, aux = net(ids)
    tgt = torch.roll(ids, -1, 1).reshape(-1)
    m = (tgt != 0).float()
    loss = (F.cross_entropy(logits, tgt, reduction="none") * m).sum() / m.sum() + 0.01 * aux
    loss.backward()
    opt.step()
    return loss


step(batch(0))
xdump.sync()
ids = batch(1)
xdump.sync()
loss = step(ids)
named = list(net.named_parameters())
live = {"loss": loss}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
