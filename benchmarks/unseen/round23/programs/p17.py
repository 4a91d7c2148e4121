"""GCN node classification on a stochastic block model, trained with DropEdge."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def sbm(n_per=25, blocks=4, p_in=0.25, p_out=0.02, seed=0):
    rng = np.random.default_rng(seed)
    n = n_per * blocks
    y = np.repeat(np.arange(blocks), n_per)
    prob = np.where(y[:, None] == y[None, :], p_in, p_out)
    upper = np.triu(rng.random((n, n)) < prob, k=1)
    src, dst = np.nonzero(upper)
    edge_index = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])
    x = rng.normal(size=(n, 8)) + 0.6 * rng.normal(size=(blocks, 8))[y]
    return torch.tensor(x, dtype=torch.float32), torch.tensor(edge_index), torch.tensor(y)


def drop_edge(edge_index, p, training=True):
    if not training or p == 0.0:
        return edge_index
    keep = torch.rand(edge_index.size(1), device=edge_index.device) >= p
    return edge_index[:, keep]


class GCNConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x, edge_index):
        src, dst = edge_index
        n = x.size(0)
        deg = torch.ones(n, device=x.device).scatter_add(
            0, dst, torch.ones(dst.size(0), device=x.device))
        inv = deg.rsqrt()
        h = self.lin(x)
        msg = h[src] * (inv[src] * inv[dst])[:, None]
        out = (h * (inv * inv)[:, None]).index_add(0, dst, msg)
        return out + self.bias


class GCN(nn.Module):
    def __init__(self, d_in, hidden, classes, drop_edge_p=0.3):
        super().__init__()
        self.conv1 = GCNConv(d_in, hidden)
        self.conv2 = GCNConv(hidden, classes)
        self.drop_edge_p = drop_edge_p

    def forward(self, x, edge_index):
        edge_index = drop_edge(edge_index, self.drop_edge_p, self.training)
        h = F.relu(self.conv1(x, edge_index))
        h = F.dropout(h, 0.3, self.training)
        return self.conv2(h, edge_index)


def masked_accuracy(logits, y, mask):
    hit = (logits.argmax(1) == y).float() * mask
    return hit.sum() / mask.sum()


def main(epochs=40, eval_every=8):
    torch.manual_seed(2)
    device = torch_xla.device()
    x, edge_index, y = sbm()
    order = torch.randperm(len(y))
    train_mask = torch.zeros(len(y))
    train_mask[order[:40]] = 1
    val_mask = 1 - train_mask
    x, edge_index, y = x.to(device), edge_index.to(device), y.to(device)
    train_mask, val_mask = train_mask.to(device), val_mask.to(device)

    model = GCN(x.size(1), 16, 4).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    torch_xla.sync()
    for epoch in range(1, epochs + 1):
        model.train()
        with torch_xla.step():
            opt.zero_grad()
            nll = F.cross_entropy(model(x, edge_index), y, reduction="none")
            loss = (nll * train_mask).sum() / train_mask.sum()
            loss.backward()
            opt.step()
        if epoch % eval_every == 0:
            model.eval()
            with torch.no_grad(), torch_xla.step():
                logits = model(x, edge_index)
                acc = masked_accuracy(logits, y, val_mask)
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
