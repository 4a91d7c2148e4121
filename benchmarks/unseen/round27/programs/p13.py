import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Full-batch node classification on a stochastic block model, GCN with edge dropping.

N, K, FEAT, HID = 160, 4, 16, 24
P_DROP = 0.3
EPOCHS = 60


def make_sbm(seed=3):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, K, N)
    same = y[:, None] == y[None, :]
    prob = np.where(same, 0.10, 0.01)
    adj = np.triu(rng.rand(N, N) < prob, 1)
    src, dst = np.nonzero(adj)
    edges = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])
    centers = rng.randn(K, FEAT)
    x = centers[y] * 0.5 + rng.randn(N, FEAT)
    perm = rng.permutation(N)
    train = np.zeros(N, bool)
    train[perm[:60]] = True
    return (torch.tensor(x, dtype=torch.float32), torch.tensor(edges), torch.tensor(y), torch.tensor(train))


def dropout_edge(edge_index, p):
    keep = torch.rand(edge_index.size(1)) >= p
    return edge_index[:, keep]


def add_self_loops(edge_index, n):
    loop = torch.arange(n).repeat(2, 1)
    return torch.cat([edge_index, loop], dim=1)


class GCNConv(nn.Module):

    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout, bias=False)
        self.bias = nn.Parameter(torch.zeros(fout))

    def forward(self, x, edge_index):
        row, col = edge_index[0], edge_index[1]
        n = x.size(0)
        deg = torch.zeros(n, device=x.device).index_add(0, col, torch.ones_like(col, dtype=x.dtype))
        norm = deg.clamp(min=1).rsqrt()
        msg = self.lin(x)[row] * (norm[row] * norm[col]).unsqueeze(-1)
        out = torch.zeros(n, msg.size(1), device=x.device).index_add(0, col, msg)
        return out + self.bias


class GCN(nn.Module):

    def __init__(self):
        super().__init__()
        self.c1 = GCNConv(FEAT, HID)
        self.c2 = GCNConv(HID, HID)
        self.head = nn.Linear(HID, K)

    def forward(self, x, edge_index):
        x = F.dropout(F.relu(self.c1(x, edge_index)), 0.4, self.training)
        x = x + F.relu(self.c2(x, edge_index))
        return self.head(x)


def masked_ce(logits, y, mask):
    losses = F.cross_entropy(logits, y, reduction='none') * mask
    return losses.sum() / mask.sum()


def main():
    torch.manual_seed(1)
    dev = xm.xla_device()
    x, edge_index, y, train = make_sbm()
    m_train, m_test = train.float().to(dev), (~train).float().to(dev)
    full = add_self_loops(edge_index, N).to(dev)
    x, y = x.to(dev), y.to(dev)

    net = GCN().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    best = 0.0
    for epoch in range(1, EPOCHS + 1):
        net.train()
        edges = add_self_loops(dropout_edge(edge_index, P_DROP), N).to(dev)
        opt.zero_grad()
        loss = masked_ce(net(x, edges), y, m_train)
        loss.backward()
        opt.step()
        xm.mark_step()

        if epoch % 5 == 0:
            net.eval()
            with torch.no_grad():
                hit = (net(x, full).argmax(-1) == y).float()
                acc = (hit * m_test).sum() / m_test.sum()
            xm.mark_step()
            best = max(best, acc.item())
            print('epoch %d loss %.4f test acc %.3f (best %.3f)' % (epoch, loss.item(), acc.item(), best))


if __name__ == '__main__':
    main()
