import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
flag = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()


class Enc(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.n, self.q, self.kv, self.o = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.m, self.ff = nn.LayerNorm(d), nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))

    def forward(self, x, mask):
        h = self.n(x)
        k, v = self.kv(h).chunk(2, -1)
        s = self.q(h) @ k.transpose(1, 2) / 48 ** 0.5
        s = s.masked_fill(~mask[:, None, :], -1e4)
        w = s.softmax(-1)
        x = x + self.o(w @ v)
        return x + self.ff(self.m(x)), w


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.l1, self.l2, self.cls = nn.Embedding(150, 48), Enc(), Enc(), nn.Linear(48, 4)

    def forward(self, ids, mask):
        x, w1 = self.l1(self.e(ids), mask)
        x, w2 = self.l2(x, mask)
        pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.cls(pooled), w2


def train_step(net, ids, mask, y, log):
    out, w = net(ids, mask)
    loss = F.cross_entropy(out, y)
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p.sub_(0.02 * p.grad)
            p.grad = None
    if flag:
        log.append(w.detach())
    return loss.detach()


net = Model().to(dev)
ids, y = torch.randint(1, 150, (6, 20)).to(dev), torch.randint(0, 4, (6,)).to(dev)
mask = (torch.arange(20)[None] < torch.randint(5, 21, (6, 1))).to(dev)
torch_xla.sync()
log = []
loss = train_step(net, ids, mask, y, log)
torch_xla.sync()
