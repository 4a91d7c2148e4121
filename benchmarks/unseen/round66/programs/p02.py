"""GraphSAGE-style node classification on a synthetic citation graph (full batch, transductive)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def make_citation_graph(num_nodes, num_classes, num_features, avg_degree, generator):
    """Planted-partition graph with bag-of-words features."""
    labels = torch.randint(0, num_classes, (num_nodes,), generator=generator)
    num_edges = num_nodes * avg_degree
    src = torch.randint(0, num_nodes, (num_edges,), generator=generator)
    dst = torch.randint(0, num_nodes, (num_edges,), generator=generator)
    same = labels[src] == labels[dst]
    keep = same | (torch.rand(num_edges, generator=generator) < 0.15)
    edge_index = torch.stack([src[keep], dst[keep]])
    topics = torch.randn(num_classes, num_features, generator=generator)
    x = (topics[labels] + 1.5 * torch.randn(num_nodes, num_features, generator=generator) > 0.8).float()
    order = torch.randperm(num_nodes, generator=generator)
    train_mask = torch.zeros(num_nodes, dtype=torch.bool)
    val_mask = torch.zeros(num_nodes, dtype=torch.bool)
    train_mask[order[: num_nodes // 5]] = True
    val_mask[order[num_nodes // 5: num_nodes // 2]] = True
    return x, edge_index, labels, train_mask, val_mask


def to_undirected(edge_index):
    return torch.cat([edge_index, edge_index.flip(0)], dim=1)


def dropout_edge(edge_index, p, training):
    """Randomly removes edges with probability p (Rong et al., 2020)."""
    if not training or p == 0.0:
        return edge_index
    keep = torch.rand(edge_index.size(1), device=edge_index.device) >= p
    return edge_index[:, keep]


class MeanConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin_self = nn.Linear(in_channels, out_channels)
        self.lin_neigh = nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        msg = self.lin_neigh(x).index_select(0, src)
        out = torch.zeros(x.size(0), msg.size(1), device=x.device).index_add(0, dst, msg)
        ones = torch.ones_like(dst, dtype=msg.dtype)
        deg = torch.zeros(x.size(0), device=x.device).index_add(0, dst, ones)
        return self.lin_self(x) + out / deg.clamp(min=1.0).unsqueeze(1)


class GraphNet(nn.Module):
    def __init__(self, num_features, hidden, num_classes, num_layers=2, dropout=0.4, edge_dropout=0.2):
        super().__init__()
        dims = [num_features] + [hidden] * (num_layers - 1) + [num_classes]
        self.convs = nn.ModuleList(MeanConv(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for d in dims[1:-1])
        self.dropout = dropout
        self.edge_dropout = edge_dropout

    def forward(self, x, edge_index):
        edge_index = dropout_edge(edge_index, self.edge_dropout, self.training)
        x = F.dropout(x, self.dropout, self.training)
        for conv, norm in zip(self.convs[:-1], self.norms):
            x = F.dropout(F.relu(norm(conv(x, edge_index))), self.dropout, self.training)
        return self.convs[-1](x, edge_index)


def masked_cross_entropy(logits, labels, mask):
    per_node = F.cross_entropy(logits, labels, reduction="none")
    return (per_node * mask).sum() / mask.sum()


def masked_accuracy(logits, labels, mask):
    hit = (logits.argmax(dim=-1) == labels).float()
    return (hit * mask).sum() / mask.sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--eval-every", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(3)
    device = torch_xla.device()
    x, edge_index, labels, train_mask, val_mask = make_citation_graph(400, 5, 64, 12, generator)
    edge_index = to_undirected(edge_index)

    x, labels = x.to(device), labels.to(device)
    edge_index = edge_index.to(device)
    train_w, val_w = train_mask.float().to(device), val_mask.float().to(device)

    model = GraphNet(x.size(1), args.hidden, 5).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=5e-4)

    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        loss = masked_cross_entropy(model(x, edge_index), labels, train_w)
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        if epoch % args.eval_every == 0:
            model.eval()
            with torch.no_grad():
                logits = model(x, edge_index)
                val_acc = masked_accuracy(logits, labels, val_w)
            torch_xla.sync()
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}  val acc {val_acc.item():.3f}")


if __name__ == "__main__":
    main()
