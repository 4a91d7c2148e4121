import torch, torch.nn as nn, torch.nn.functional as F
import xdump

N, E, D, DE, C = 40, 120, 16, 5, 6


class MPLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * D + DE, D), nn.ReLU(), nn.Linear(D, D))
        self.upd = nn.Linear(2 * D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, h, src, dst, eattr, inv_deg):
        m = self.msg(torch.cat([h.index_select(0, src), h.index_select(0, dst), eattr], -1))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        agg = agg * inv_deg
        return self.norm(h + F.relu(self.upd(torch.cat([h, agg], -1))))


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(9, D)
        self.layers = nn.ModuleList(MPLayer() for _ in range(3))
        self.head = nn.Linear(D, C)

    def forward(self, x, ei, eattr):
        src, dst = ei[0], ei[1]
        deg = torch.zeros(x.shape[0], device=x.device).index_add(0, dst, torch.ones(ei.shape[1], device=x.device))
        inv_deg = 1.0 / deg.clamp(min=1.0).unsqueeze(-1)
        h = self.inp(x)
        for l in self.layers:
            h = l(h, src, dst, eattr, inv_deg)
        return self.head(h)


xdump.seed(4)
dev = xdump.device()
net = GNN().to(dev)
opt = torch.optim.Adagrad(net.parameters(), lr=0.01)
for st in opt.state.values():
    st["sum"] = st["sum"].to(dev)
x = torch.randn(N, 9).to(dev)
ei = torch.randint(0, N, (2, E)).to(dev)
ea = torch.randn(E, DE).to(dev)
y = torch.randint(0, C, (N,)).to(dev)
xdump.sync()


def step():
    opt.zero_grad()
    loss = F.cross_entropy(net(x, ei, ea), y)
    loss.backward()
    opt.step()
    return loss


step()
xdump.sync()
loss = step()
named = list(net.named_parameters())
live = {"loss": loss}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
