import torch, torch.nn as nn, torch.nn.functional as F
import xdump

B, NU, NI, D = 12, 80, 60, 16


class Tower(nn.Module):
    def __init__(self, n, feats):
        super().__init__()
        self.l1, self.l2 = nn.Linear(D + feats, 24), nn.Linear(24, D)
        self.emb = nn.Embedding(n, D)

    def forward(self, ids, f):
        h = F.relu(self.l1(torch.cat([self.emb(ids), f], -1)))
        return F.normalize(self.l2(h), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.0))
        self.item = Tower(NI, 7)
        self.user = Tower(NU, 5)

    def forward(self, b):
        i = self.item(b["iid"], b["if"])
        u = self.user(b["uid"], b["uf"])
        return (u @ i.t()) * self.log_scale.exp()


def init(net):
    for n, p in sorted(net.named_parameters()):
        g = torch.Generator().manual_seed(sum(map(ord, n)))
        if p.ndim:
            p.data = torch.randn(p.shape, generator=g) * 0.1


xdump.seed(12)
dev = xdump.device()
net = TwoTower()
init(net)
net = net.to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
data = {"uid": torch.randint(0, NU, (B,)), "iid": torch.randint(0, NI, (B,)),
        "uf": torch.randn(B, 5), "if": torch.randn(B, 7)}
data = {k: v.to(dev) for k, v in data.items()}
xdump.sync()


def step(b):
    opt.zero_grad()
    s = net(b)
    tgt = torch.arange(B, device=dev)
    loss = 0.5 * (F.cross_entropy(s, tgt) + F.cross_entropy(s.t(), tgt))
    loss.backward()
    opt.step()
    return loss


step(data)
xdump.sync()
loss = step(data)
live = {"loss": loss}
for n, p in net.named_parameters():     # a sync lowers live tensors in order of creation
    live[n] = p
live.update(xdump.state_of(opt, list(net.named_parameters())))
xdump.dump(live)
