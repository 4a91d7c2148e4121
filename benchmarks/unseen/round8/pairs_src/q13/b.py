import torch, torch.nn as nn, torch.nn.functional as F
import xdump

V, E, HID, B, T, C = 40, 12, 16, 5, 6, 3


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.wx = nn.Linear(E, 3 * HID)
        self.wh = nn.Linear(HID, 3 * HID)

    def forward(self, xs):
        h = torch.zeros(xs[0].shape[0], HID, device=xs[0].device)
        for x in xs:
            xr, xz, xn = self.wx(x).chunk(3, -1)
            hr, hz, hn = self.wh(h).chunk(3, -1)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + hn * torch.sigmoid(xr + hr))
            h = n * (1 - z) + h * z
        return h


class BiGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb_f, self.emb_b = nn.Embedding(V, E), nn.Embedding(V, E)
        self.fwd, self.bwd = GRU(), GRU()
        self.out = nn.Linear(2 * HID, C)

    def forward(self, ids):
        hb = self.run_backward(ids)
        hf = self.run_forward(ids)
        return self.out(torch.cat([hf, hb], -1))

    def run_forward(self, ids):
        return self.fwd(self.emb_f(ids).unbind(1))

    def run_backward(self, ids):
        return self.bwd(self.emb_b(ids).unbind(1)[::-1])


class Lamb:
    def __init__(self, params, lr=2e-3, b1=0.9, b2=0.999, eps=1e-6, wd=0.01):
        self.params, self.h = list(params)[::-1], (lr, b1, b2, eps, wd)
        self.m = {id(p): torch.zeros_like(p) for p in self.params}
        self.v = {id(p): torch.zeros_like(p) for p in self.params}

    @torch.no_grad()
    def step(self):
        lr, b1, b2, eps, wd = self.h
        for p in self.params:
            m, v = self.m[id(p)], self.v[id(p)]
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            m.mul_(b1).add_(p.grad, alpha=1 - b1)
            u = m / (v.sqrt() + eps) + wd * p
            wn, un = p.norm(), u.norm()
            trust = torch.where((wn > 0) & (un > 0), wn / un, torch.ones_like(wn))
            p.sub_(u * (trust * lr))


xdump.seed(13)
dev = xdump.device()
net = BiGRU().to(dev)
opt = Lamb(net.parameters())
ids = torch.randint(0, V, (2, B, T)).to(dev)
y = torch.randint(0, C, (2, B)).to(dev)
xdump.sync()


def step(i):
    for p in net.parameters():
        p.grad = None
    loss = F.cross_entropy(net(ids[i]), y[i])
    loss.backward()
    opt.step()
    return loss


step(0)
xdump.sync()
loss = step(1)
live = {"loss": loss}
for n, p in net.named_parameters():
    live[n] = p
for n, p in net.named_parameters():
    live["m." + n], live["v." + n] = opt.m[id(p)], opt.v[id(p)]
xdump.dump(live)
