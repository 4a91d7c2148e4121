import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def normalized_adjacency(edges, n):
    a = torch.zeros(n, n)
    a[edges[0], edges[1]] = 1
    a = ((a + a.t()) > 0).float() + torch.eye(n)
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None, :]


class GraphConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim))
        self.bias = nn.Parameter(torch.zeros(out_dim))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        return torch.mm(torch.mm(adj, x), self.weight) + self.bias


class JumpingGCN(nn.Module):
    def __init__(self, in_dim, hidden, classes, depth=3):
        super().__init__()
        dims = [in_dim] + [hidden] * depth
        self.convs = nn.ModuleList(GraphConv(a, b) for a, b in zip(dims, dims[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(depth))
        self.out = nn.Linear(hidden * depth, classes)

    def forward(self, x, adj):
        hs = []
        for conv, norm in zip(self.convs, self.norms):
            x = F.elu(norm(conv(x, adj)))
            hs.append(x)
        return self.out(torch.cat(hs, 1))


class Cora:
    def __init__(self, nodes=40, feats=20, classes=5):
        g = torch.Generator().manual_seed(2)
        self.x = torch.rand(nodes, feats, generator=g)
        self.edges = torch.randint(0, nodes, (2, 90), generator=g)
        self.y = torch.randint(0, classes, (nodes,), generator=g)
        self.train_mask = (torch.rand(nodes, generator=g) < 0.5).float()


def masked_nll(logits, y, mask):
    loss = F.nll_loss(F.log_softmax(logits, 1), y, reduction='none')
    return (loss * mask).sum() / mask.sum()


def main(epochs=6):
    torch.manual_seed(0)
    dev = torch_xla.device()
    data = Cora()
    adj = normalized_adjacency(data.edges, len(data.y)).to(dev)
    x, y, mask = data.x.to(dev), data.y.to(dev), data.train_mask.to(dev)
    model = JumpingGCN(20, 16, 5).to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        opt.zero_grad()
        logits = model(x, adj)
        loss = masked_nll(logits, y, mask)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if epoch % 3 == 0:
            print(f'epoch {epoch} loss {loss.item():.4f}')


if __name__ == '__main__':
    main()
