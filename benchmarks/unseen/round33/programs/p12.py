"""Node classification with a two layer mean-aggregating GNN and edge dropout.

The graph is a stochastic block model that stays on the device for the whole run.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def block_model(nodes, classes, feat, rng):
    labels = rng.integers(0, classes, nodes)
    same = labels[:, None] == labels[None, :]
    prob = np.where(same, 0.12, 0.015)
    adj = np.triu(rng.random((nodes, nodes)) < prob, 1)
    src, dst = np.nonzero(adj | adj.T)
    centers = rng.normal(0, 1, (classes, feat))
    x = centers[labels] + rng.normal(0, 1.5, (nodes, feat))
    return (
        torch.tensor(x, dtype=torch.float32),
        torch.tensor(np.stack([src, dst]), dtype=torch.long),
        torch.tensor(labels, dtype=torch.long),
    )


class MeanConv(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.own = nn.Linear(dim_in, dim_out)
        self.neigh = nn.Linear(dim_in, dim_out, bias=False)

    def forward(self, x, edge_index, edge_weight):
        src, dst = edge_index
        msg = x.index_select(0, src) * edge_weight.unsqueeze(-1)
        agg = torch.zeros_like(x).index_add(0, dst, msg)
        deg = torch.zeros(x.size(0), device=x.device).index_add(0, dst, edge_weight)
        agg = agg / deg.clamp(min=1.0).unsqueeze(-1)
        return self.own(x) + self.neigh(agg)


class GNN(nn.Module):
    def __init__(self, feat, hidden, classes, edge_drop, feat_drop):
        super().__init__()
        self.conv1 = MeanConv(feat, hidden)
        self.conv2 = MeanConv(hidden, classes)
        self.norm = nn.LayerNorm(hidden)
        self.edge_drop = edge_drop
        self.feat_drop = feat_drop

    def sparsify(self, edge_index, edge_weight):
        if not self.training or self.edge_drop == 0.0:
            return edge_index, edge_weight
        keep = torch.rand(edge_index.size(1), device=edge_index.device) >= self.edge_drop
        return edge_index[:, keep], edge_weight[keep] / (1.0 - self.edge_drop)

    def forward(self, x, edge_index, edge_weight):
        edge_index, edge_weight = self.sparsify(edge_index, edge_weight)
        x = F.dropout(x, self.feat_drop, self.training)
        h = F.relu(self.norm(self.conv1(x, edge_index, edge_weight)))
        h = F.dropout(h, self.feat_drop, self.training)
        return self.conv2(h, edge_index, edge_weight)


def masked_ce(logits, labels, mask):
    loss = F.cross_entropy(logits, labels, reduction="none")
    return (loss * mask).sum() / mask.sum()


@torch.no_grad()
def accuracy(model, x, edges, weight, labels, mask):
    model.eval()
    hit = (model(x, edges, weight).argmax(-1) == labels).float()
    acc = (hit * mask).sum() / mask.sum()
    model.train()
    return acc.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=200)
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--edge-drop", type=float, default=0.3)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    device = xm.xla_device()

    x, edges, labels = block_model(args.nodes, classes=4, feat=16, rng=rng)
    split = torch.tensor(rng.random(args.nodes))
    train_mask = (split < 0.6).float()
    val_mask = (split >= 0.6).float()

    x, edges, labels = x.to(device), edges.to(device), labels.to(device)
    train_mask, val_mask = train_mask.to(device), val_mask.to(device)
    weight = torch.ones(edges.size(1), device=device)

    model = GNN(16, 32, 4, args.edge_drop, feat_drop=0.2).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps, eta_min=0.05 * args.lr)
    xm.mark_step()

    model.train()
    for step in range(args.steps):
        opt.zero_grad()
        logits = model(x, edges, weight)
        loss = masked_ce(logits, labels, train_mask)
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        if step % 10 == 9:
            acc = accuracy(model, x, edges, weight, labels, val_mask)
            print(f"step {step + 1} loss {loss.item():.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
