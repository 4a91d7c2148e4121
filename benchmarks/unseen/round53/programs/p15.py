"""Node classification on a citation-like graph: GraphSAGE/GCN mix with DropEdge."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def sbm_graph(n_nodes, n_classes, p_in, p_out, n_feat, rng):
    """Stochastic block model with class-dependent noisy features."""
    labels = rng.integers(0, n_classes, n_nodes)
    same = labels[:, None] == labels[None, :]
    prob = np.where(same, p_in, p_out)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < prob, k=1)
    src, dst = np.nonzero(upper)
    edge_index = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])
    centers = rng.normal(0, 1, (n_classes, n_feat))
    feats = centers[labels] + rng.normal(0, 2.0, (n_nodes, n_feat))
    return (
        torch.from_numpy(feats.astype(np.float32)),
        torch.from_numpy(edge_index.astype(np.int64)),
        torch.from_numpy(labels.astype(np.int64)),
    )


def dropout_edge(edge_index, p, training=True):
    """Remove each edge with probability p, as in Rong et al. (DropEdge)."""
    if not training or p == 0.0:
        return edge_index
    keep = torch.rand(edge_index.size(1), device=edge_index.device) >= p
    return edge_index[:, keep]


def add_self_loops(edge_index, n_nodes):
    loop = torch.arange(n_nodes, device=edge_index.device)
    return torch.cat([edge_index, loop.expand(2, -1)], dim=1)


class GCNConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x, edge_index):
        n = x.size(0)
        row, col = add_self_loops(edge_index, n)
        deg = torch.zeros(n, device=x.device).index_add_(0, col, torch.ones_like(col, dtype=x.dtype))
        norm = deg.clamp(min=1).rsqrt()
        h = self.lin(x)
        msg = h.index_select(0, row) * (norm[row] * norm[col]).unsqueeze(-1)
        out = torch.zeros_like(h).index_add_(0, col, msg)
        return out + self.bias


class SAGEConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.own = nn.Linear(d_in, d_out)
        self.nbr = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x, edge_index):
        row, col = edge_index
        agg = torch.zeros_like(x).index_add_(0, col, x.index_select(0, row))
        deg = torch.zeros(x.size(0), device=x.device)
        deg = deg.index_add_(0, col, torch.ones_like(col, dtype=x.dtype)).clamp(min=1)
        return self.own(x) + self.nbr(agg / deg.unsqueeze(-1))


class Net(nn.Module):
    def __init__(self, d_in, d_hid, n_classes, edge_drop=0.2, drop=0.3):
        super().__init__()
        self.conv1 = SAGEConv(d_in, d_hid)
        self.conv2 = GCNConv(d_hid, d_hid)
        self.norm = nn.LayerNorm(d_hid)
        self.head = nn.Linear(d_hid, n_classes)
        self.edge_drop, self.drop = edge_drop, drop

    def forward(self, x, edge_index):
        edge_index = dropout_edge(edge_index, self.edge_drop, self.training)
        h = F.relu(self.conv1(x, edge_index))
        h = F.dropout(h, self.drop, self.training)
        h = F.relu(self.norm(self.conv2(h, edge_index)))
        return self.head(h)


def masked_ce(logits, labels, mask):
    loss = F.cross_entropy(logits, labels, reduction="none")
    return (loss * mask).sum() / mask.sum()


def run(epochs=25, lr=1e-2, seed=15):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    xm.set_rng_state(seed)
    device = torch_xla.device()

    n_nodes, n_classes = 150, 4
    x, edge_index, y = sbm_graph(n_nodes, n_classes, 0.08, 0.015, 16, rng)
    order = rng.permutation(n_nodes)
    train_mask, val_mask = torch.zeros(n_nodes), torch.zeros(n_nodes)
    train_mask[order[:80]] = 1.0
    val_mask[order[80:120]] = 1.0
    x, edge_index, y = x.to(device), edge_index.to(device), y.to(device)
    train_mask, val_mask = train_mask.to(device), val_mask.to(device)

    model = Net(16, 24, n_classes).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-4)
    xm.mark_step()

    best = 0.0
    for epoch in range(1, epochs + 1):
        model.train()
        opt.zero_grad()
        loss = masked_ce(model(x, edge_index), y, train_mask)
        loss.backward()
        opt.step()
        xm.mark_step()

        if epoch % 5 == 0:
            model.eval()
            with torch.no_grad():
                hit = (model(x, edge_index).argmax(-1) == y).float()
                acc = (hit * val_mask).sum() / val_mask.sum()
            best = max(best, acc.item())
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val {acc.item():.3f} best {best:.3f}")


if __name__ == "__main__":
    run()
