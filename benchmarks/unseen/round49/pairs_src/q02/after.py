"""Node regression on a pipe network (pressure at junctions) by message passing."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NODES, EDGES = 24, 60


def degree(index, n):
    one = torch.ones(index.shape[0], device=index.device)
    return torch.zeros(n, device=index.device).index_add_(0, index, one).clamp(min=1.0)


class PipeConv(nn.Module):
    """Mean of edge messages arriving at each junction, then a gated update."""

    def __init__(self, dim, edge_dim):
        super().__init__()
        self.msg = nn.Linear(2 * dim + edge_dim, dim)
        self.gate = nn.Linear(2 * dim, dim)
        self.cand = nn.Linear(2 * dim, dim)

    def forward(self, h, src, dst, edge_attr):
        m = torch.cat([h[src], h[dst], edge_attr], dim=-1)
        m = F.leaky_relu(self.msg(m), 0.1)
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        agg = agg / degree(src, h.shape[0]).unsqueeze(-1)
        hc = torch.cat([h, agg], dim=-1)
        z = torch.sigmoid(self.gate(hc))
        return (1 - z) * h + z * torch.tanh(self.cand(hc))


class PressureNet(nn.Module):
    def __init__(self, in_dim=5, edge_dim=3, dim=12, depth=2):
        super().__init__()
        self.embed = nn.Linear(in_dim, dim)
        self.convs = nn.ModuleList([PipeConv(dim, edge_dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, x, src, dst, edge_attr):
        h = self.embed(x)
        for conv in self.convs:
            h = conv(h, src, dst, edge_attr)
        return self.head(h).squeeze(-1)


def masked_l1(pred, target, known):
    return (F.smooth_l1_loss(pred, target, beta=0.5, reduction='none') * known).sum() / known.sum()


def main(path, dump_at=2):
    torch.manual_seed(11)
    dev = xm.xla_device()
    net = PressureNet().to(dev)
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3, alpha=0.95, eps=1e-6)
    g = torch.Generator().manual_seed(5)
    src = torch.randint(0, NODES, (EDGES,), generator=g).to(dev)
    dst = torch.randint(0, NODES, (EDGES,), generator=g).to(dev)
    edge_attr = torch.rand(EDGES, 3, generator=g).to(dev)
    for step in range(dump_at + 1):
        x = torch.randn(NODES, 5, generator=g).to(dev)
        y = torch.randn(NODES, generator=g).to(dev)
        known = (torch.rand(NODES, generator=g) < 0.7).float().to(dev)
        opt.zero_grad()
        loss = masked_l1(net(x, src, dst, edge_attr), y, known)
        loss.backward()
        opt.step()
        if step == dump_at:
            live = [loss]
            for p in net.parameters():
                live += [p, p.grad, opt.state[p]['square_avg']]
            with open(path, 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == '__main__':
    main(sys.argv[1])
