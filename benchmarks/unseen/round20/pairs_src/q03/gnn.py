"""Molecule property regression; message passing over an edge list."""
import random
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

NODES = 60


def random_graph(rng):
    n_edges = rng.randrange(100, 140, 20)
    src = torch.randint(0, NODES, (n_edges,))
    dst = torch.randint(0, NODES, (n_edges,))
    feat = torch.randn(n_edges, 6)
    x = torch.randn(NODES, 16)
    return x, src, dst, feat, torch.randn(NODES)


class MP(nn.Module):
    def __init__(self, d, e):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * d + e, d), nn.ReLU(), nn.Linear(d, d))
        self.gru = nn.GRUCell(d, d)

    def forward(self, h, src, dst, feat):
        m = self.msg(torch.cat([h[src], h[dst], feat], dim=1))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.gru(agg, h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(16, 32)
        self.mp = MP(32, 6)
        self.out = nn.Linear(32, 1)

    def forward(self, x, src, dst, feat):
        h = torch.tanh(self.embed(x))
        for _ in range(2):
            h = self.mp(h, src, dst, feat)
        return self.out(h).squeeze(1)


def train():
    rng = random.Random(3)
    torch.manual_seed(3)
    dev = xm.xla_device()
    net = Net().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, weight_decay=1e-4)
    for it in range(8):
        x, src, dst, feat, y = [t.to(dev) for t in random_graph(rng)]
        opt.zero_grad()
        loss = nn.functional.l1_loss(net(x, src, dst, feat), y)
        loss.backward()
        opt.step()
        torch_xla.sync()


train()
