"""Relational GCN on small supply-chain graphs; node-level risk classes with a padding mask."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))
DUMP_AT = 2
RELATIONS, CLASSES = 3, 4


class RelationalLayer(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(RELATIONS, din, dout) / din ** 0.5)
        self.loop = nn.Parameter(torch.randn(din, dout) / din ** 0.5)
        self.gamma = nn.Parameter(torch.ones(dout))
        self.beta = nn.Parameter(torch.zeros(dout))

    def forward(self, x, adj):
        # adj: (batch, relation, node, node)
        deg = adj.sum(dim=-1, keepdim=True).clamp(min=1.0)
        messages = torch.einsum("bnd,rde->brne", x, self.weight)
        out = x @ self.loop + torch.matmul(adj / deg, messages).sum(dim=1)
        return F.layer_norm(out, out.shape[-1:], self.gamma, self.beta, eps=1e-5)


class RiskNet(nn.Module):
    def __init__(self, din=6, width=12):
        super().__init__()
        self.first = RelationalLayer(din, width)
        self.second = RelationalLayer(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x, adj):
        h = F.elu(self.first(x, adj))
        h = F.elu(self.second(h, adj)) + h
        return self.head(h)


def risk_loss(logits, labels, mask):
    nll = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    weight = mask.flatten()
    return torch.dot(nll, weight) / weight.sum()


def train_step(net, opt, x, adj, labels, mask):
    opt.zero_grad(set_to_none=True)
    loss = risk_loss(net(x, adj), labels, mask)
    loss.backward()
    opt.step()
    return loss


def make_batch(g):
    x = torch.randn(3, 7, 6, generator=g)
    adj = (torch.rand(3, RELATIONS, 7, 7, generator=g) < 0.3).float()
    labels = torch.randint(0, CLASSES, (3, 7), generator=g)
    mask = (torch.arange(7)[None] < torch.tensor([[7], [5], [4]])).float()
    return x, adj, labels, mask


def main(steps=4):
    dev = torch_xla.device()
    torch.manual_seed(11)
    net = RiskNet().to(dev)
    g = torch.Generator().manual_seed(5)
    params = list(net.parameters())
    opt = torch.optim.Adam(params, lr=5e-3)
    for i in range(steps):
        loss = train_step(net, opt, *(t.to(dev) for t in make_batch(g)))
        if i == DUMP_AT:
            live = params + [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")] + [loss]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, loss.item(), sum(p.double().abs().sum().item() for p in params), file=sys.stderr)


if __name__ == "__main__":
    main()
