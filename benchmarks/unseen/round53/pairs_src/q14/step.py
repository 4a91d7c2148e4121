"""Node classification on a citation graph, full batch, GCN with residuals."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class GCNConv(nn.Module):
    def __init__(self, in_dim, out_dim, cached=True):
        super().__init__()
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.cached = cached
        self._norm = None

    def reset_cache(self):
        self._norm = None

    def norm(self, edge_index, n):
        if self._norm is not None:
            return self._norm
        row, col = edge_index
        ones = torch.ones(row.shape[0], device=row.device)
        deg = torch.zeros(n, device=row.device).scatter_add(0, col, ones) + 1.0
        inv = deg.rsqrt()
        norm = (inv[row] * inv[col], inv * inv)
        if self.cached:
            self._norm = norm
        return norm

    def forward(self, x, edge_index):
        w, self_w = self.norm(edge_index, x.shape[0])
        h = self.lin(x)
        msg = h.index_select(0, edge_index[0]) * w[:, None]
        out = torch.zeros_like(h).index_add(0, edge_index[1], msg)
        return out + h * self_w[:, None] + self.bias


class GCN(nn.Module):
    def __init__(self, in_dim=24, hidden=32, classes=7, layers=3, dropout=0.3):
        super().__init__()
        self.inp = nn.Linear(in_dim, hidden)
        self.convs = nn.ModuleList(GCNConv(hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.out = nn.Linear(hidden, classes)
        self.dropout = dropout

    def train(self, mode=True):
        if mode != self.training:
            for conv in getattr(self, "convs", []):
                conv.reset_cache()
        return super().train(mode)

    def forward(self, x, edge_index):
        x = F.relu(self.inp(x))
        for conv, norm in zip(self.convs, self.norms):
            h = F.dropout(F.relu(conv(norm(x), edge_index)), self.dropout, self.training)
            x = x + h
        return self.out(x)


def make_graph(n=120, e=512, device="cpu", seed=2):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 24, generator=g)
    y = torch.randint(0, 7, (n,), generator=g)
    edge_index = torch.randint(0, n, (2, e), generator=g)
    split = torch.rand(n, generator=g)
    return [t.to(device) for t in (x, y, edge_index, (split < 0.6).float(), (split >= 0.6).float())]


def masked_ce(logits, y, mask):
    return (F.cross_entropy(logits, y, reduction="none", label_smoothing=0.1) * mask).sum() / mask.sum()


@torch.no_grad()
def evaluate(model, x, y, edge_index, mask):
    model.eval()
    hit = (model(x, edge_index).argmax(-1) == y).float()
    acc = (hit * mask).sum() / mask.sum()
    torch_xla.sync()
    model.train()
    return acc.item()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    x, y, edge_index, train_mask, val_mask = make_graph(device=device)
    model = GCN().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=5e-4)
    torch_xla.sync()
    for epoch in range(9):
        opt.zero_grad()
        loss = masked_ce(model(x, edge_index), y, train_mask)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if epoch % 3 == 2:
            print(epoch, loss.item(), evaluate(model, x, y, edge_index, val_mask))


if __name__ == "__main__":
    main()
