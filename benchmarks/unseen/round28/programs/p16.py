# Node classification on a stochastic block model, DropEdge regularisation.
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def sbm(n_per, k, p_in, p_out, feat, gen):
    n = n_per * k
    y = torch.arange(k).repeat_interleave(n_per)
    prob = torch.where(y[:, None] == y[None], p_in, p_out)
    adj = torch.rand(n, n, generator=gen) < prob
    adj = torch.triu(adj, 1)
    adj = adj | adj.T
    edge_index = adj.nonzero().T.contiguous()
    centers = torch.randn(k, feat, generator=gen)
    x = centers[y] + 1.5 * torch.randn(n, feat, generator=gen)
    return x, y, edge_index


def drop_edge(edge_index, p, training):
    if not training or p == 0:
        return edge_index
    keep = torch.rand(edge_index.size(1), device=edge_index.device) >= p
    return edge_index[:, keep]


class SageLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.self_lin = nn.Linear(d_in, d_out)
        self.nbr_lin = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        msg = x.index_select(0, src)
        agg = torch.zeros_like(x).index_add(0, dst, msg)
        deg = torch.zeros(x.size(0), device=x.device).index_add(
            0, dst, torch.ones_like(dst, dtype=x.dtype))
        agg = agg / deg.clamp(min=1).unsqueeze(1)
        return self.self_lin(x) + self.nbr_lin(agg)


class GraphSage(nn.Module):
    def __init__(self, feat, hidden, classes, drop, edge_drop):
        super().__init__()
        self.l1 = SageLayer(feat, hidden)
        self.l2 = SageLayer(hidden, classes)
        self.drop, self.edge_drop = drop, edge_drop

    def forward(self, x, edge_index):
        edge_index = drop_edge(edge_index, self.edge_drop, self.training)
        h = F.relu(self.l1(x, edge_index))
        h = F.dropout(h, self.drop, self.training)
        return self.l2(h, edge_index)


def accuracy(model, x, ei, y, mask):
    model.eval()
    with torch.no_grad():
        hit = (model(x, ei).argmax(1) == y) & mask
        acc = hit.sum() / mask.sum()
    xm.mark_step()
    return acc.item()


def main():
    gen = torch.Generator().manual_seed(42)
    torch.manual_seed(42)
    dev = xm.xla_device()
    x, y, ei = sbm(n_per=20, k=4, p_in=0.25, p_out=0.03, feat=16, gen=gen)
    train_mask = torch.rand(len(y), generator=gen) < 0.4
    x, y, ei = x.to(dev), y.to(dev), ei.to(dev)
    train_mask = train_mask.to(dev)
    weight = train_mask.float() / train_mask.sum()

    model = GraphSage(16, 24, 4, drop=0.4, edge_drop=0.3).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, 20, 0.5)
    xm.mark_step()

    for epoch in range(1, 33):
        model.train()
        opt.zero_grad()
        out = model(x, ei)
        loss = (F.cross_entropy(out, y, reduction="none") * weight).sum()
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        if epoch % 8 == 0:
            acc = accuracy(model, x, ei, y, ~train_mask)
            print(f"epoch {epoch:3d} loss {loss.item():.4f} held-out acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
