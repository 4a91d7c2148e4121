"""Attention message passing over a water distribution network: which junctions
leak, from pressures at the nodes and pipe attributes on the edges."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NODES, EDGES, NF, EF, HID, HEADS = 14, 34, 5, 3, 12, 3


class PipeAttention(nn.Module):
    def __init__(self, dim, edge_dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.msg = nn.Linear(2 * dim + edge_dim, dim)
        self.att = nn.Parameter(torch.randn(heads, self.hd) * 0.3)
        self.upd = nn.Linear(2 * dim, dim)

    def forward(self, h, src, dst, e):
        n = h.shape[0]
        m = self.msg(torch.cat([h[src], h[dst], e], dim=-1))
        m = m.view(-1, self.heads, self.hd)
        logit = (F.leaky_relu(m, 0.2) * self.att).sum(dim=-1)
        # softmax over the pipes that enter a junction
        top = torch.full((n, self.heads), -1e9, device=h.device)
        top = top.scatter_reduce(0, dst[:, None].expand_as(logit), logit.detach(), "amax")
        w = torch.exp(logit - top[dst])
        z = torch.zeros(n, self.heads, device=h.device).index_add(0, dst, w)
        a = w / (z[dst] + 1e-9)
        agg = torch.zeros(n, self.heads, self.hd, device=h.device)
        agg = agg.index_add(0, dst, a.unsqueeze(-1) * m).reshape(n, -1)
        return h + F.silu(self.upd(torch.cat([h, agg], dim=-1)))


class LeakNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(NF, HID)
        self.layers = nn.ModuleList(PipeAttention(HID, EF, HEADS) for _ in range(2))
        self.dec = nn.Linear(HID, 1)

    def forward(self, x, src, dst, e):
        h = torch.tanh(self.enc(x))
        for layer in self.layers:
            h = layer(h, src, dst, e)
        return self.dec(h).squeeze(-1)


def focal(logit, target, gamma=2.0, alpha=0.75):
    p = torch.sigmoid(logit)
    pt = p * target + (1 - p) * (1 - target)
    at = alpha * target + (1 - alpha) * (1 - target)
    ce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
    return (at * (1 - pt) ** gamma * ce).mean()


def main(path):
    dev = torch_xla.device()
    torch.manual_seed(5)
    net = LeakNet().to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=2e-2, weight_decay=1e-4)
    src = torch.randint(0, NODES, (EDGES,)).to(dev)
    dst = torch.randint(0, NODES, (EDGES,)).to(dev)
    e = torch.randn(EDGES, EF).to(dev)
    torch_xla.sync()
    for step in range(5):
        x = torch.randn(NODES, NF).to(dev)
        y = (torch.rand(NODES) < 0.25).float().to(dev)
        opt.zero_grad()
        loss = focal(net(x, src, dst, e), y)
        loss.backward()
        opt.step()
        if step == 1:
            live = [loss.detach()]
            for p in net.parameters():
                live += [p.data, p.grad, opt.state[p]["sum"]]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), [round(p.abs().sum().item(), 4) for p in net.parameters()])


if __name__ == "__main__":
    main(sys.argv[1])
