"""Citation-style node classification, GCN with residuals, edge dropout."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm


def planted_partition(n=160, k=4, p_in=0.09, p_out=0.01, feat=16, seed=0):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, k, n)
    same = y[:, None] == y[None]
    adj = rng.rand(n, n) < np.where(same, p_in, p_out)
    adj = np.triu(adj, 1)
    src, dst = np.nonzero(adj | adj.T)
    x = rng.randn(n, feat) + 0.5 * rng.randn(k, feat)[y]
    order = rng.permutation(n)
    return (torch.tensor(x, dtype=torch.float32), torch.tensor(np.stack([src, dst])),
            torch.tensor(y), torch.tensor(order[:60]), torch.tensor(order[60:]))


class Conv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.root = nn.Linear(d_in, d_out)

    def forward(self, x, edges):
        src, dst = edges
        ones = torch.ones(src.shape[0], device=x.device)
        deg = torch.zeros(x.shape[0], device=x.device).index_add(0, dst, ones).clamp(min=1.0)
        msg = self.lin(x).index_select(0, src)
        agg = torch.zeros(x.shape[0], msg.shape[1], device=x.device).index_add(0, dst, msg)
        return self.root(x) + agg / deg.unsqueeze(1)


class DropEdge(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, edges):
        if not self.training or self.p == 0:
            return edges
        keep = torch.rand(edges.shape[1], device=edges.device) >= self.p
        return edges[:, keep]


class GCN(nn.Module):
    def __init__(self, d_in, hid, k, layers=2, p_edge=0.3, p=0.3):
        super().__init__()
        self.inp = nn.Linear(d_in, hid)
        self.convs = nn.ModuleList([Conv(hid, hid) for _ in range(layers)])
        self.drop_edge = DropEdge(p_edge)
        self.out = nn.Linear(hid, k)
        self.p = p

    def forward(self, x, edges):
        edges = self.drop_edge(edges)
        h = F.relu(self.inp(x))
        for conv in self.convs:
            h = h + F.relu(conv(F.dropout(h, self.p, self.training), edges))
        return self.out(h)


def run(epochs=20, eval_every=5):
    torch.manual_seed(0)
    device = xm.xla_device()
    x, edges, y, train_idx, test_idx = [t.to(device) for t in planted_partition()]
    model = GCN(x.shape[1], 24, 4).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=5e-4)

    for epoch in range(1, epochs + 1):
        model.train()
        opt.zero_grad()
        logits = model(x, edges)
        loss = F.cross_entropy(logits.index_select(0, train_idx), y.index_select(0, train_idx))
        loss.backward()
        xm.optimizer_step(opt, barrier=True)

        if epoch % eval_every == 0:
            model.eval()
            with torch.no_grad():
                pred = model(x, edges).argmax(1)
                hit = (pred.index_select(0, test_idx) == y.index_select(0, test_idx)).float().mean()
            xm.mark_step()
            print(f"{epoch:3d}  loss {loss.item():.3f}  test acc {hit.item():.3f}")


if __name__ == "__main__":
    run()
