import torch
import torch.nn as nn
import torch_xla


def random_molecule(gen):
    n = 10
    adj = torch.rand(n, n, generator=gen) < 0.25
    edge_index = adj.nonzero().t().contiguous()
    feats = torch.randn(n, 6, generator=gen)
    target = torch.randn(1, generator=gen)
    return feats, edge_index, target


class GraphConv(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        self.lin_self = nn.Linear(din, dout)
        self.lin_nbr = nn.Linear(din, dout)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        agg = torch.zeros_like(x).index_add(0, dst, x[src])
        return torch.relu(self.lin_self(x) + self.lin_nbr(agg))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = GraphConv(6, 6)
        self.c2 = GraphConv(6, 6)
        self.out = nn.Linear(6, 1)

    def forward(self, x, ei):
        return self.out(self.c2(self.c1(x, ei), ei).mean(0))


gen = torch.Generator().manual_seed(11)
dataset = [random_molecule(gen) for _ in range(10)]
device = torch.device("xla")
net = Net().to(device)
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
for i, (x, ei, y) in enumerate(dataset):
    x, ei, y = (t.to(device) for t in (x, ei, y))
    loss = (net(x, ei) - y).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    print("graph", i, "loss %.4f" % loss.item())
