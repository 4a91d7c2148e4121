"""DLRM-style click-through model: dense features, categorical embeddings, pairwise interactions."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CARDINALITIES = (120, 40, 24, 16)


def mlp(sizes, final_activation=True):
    layers = []
    for i, (n_in, n_out) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(n_in, n_out))
        if final_activation or i + 2 < len(sizes):
            layers.append(nn.LayerNorm(n_out))
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class DLRM(nn.Module):
    def __init__(self, n_dense, cardinalities, dim):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in cardinalities])
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.05)
        self.bottom = mlp([n_dense, 32, dim])
        n_fields = len(cardinalities) + 1
        rows, cols = np.tril_indices(n_fields, k=-1)
        self.register_buffer("pairs", torch.as_tensor(rows * n_fields + cols), persistent=False)
        self.top = mlp([dim + len(rows), 32, 1], final_activation=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        fields = torch.stack([x] + [t(sparse[:, i]) for i, t in enumerate(self.tables)], dim=1)
        dots = torch.bmm(fields, fields.transpose(1, 2)).flatten(1)
        inter = torch.index_select(dots, 1, self.pairs)
        return self.top(torch.cat([x, inter], dim=1)).squeeze(-1)


def param_groups(model, weight_decay):
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def build_optimizer(model, args):
    return torch.optim.AdamW(param_groups(model, args.weight_decay), lr=args.lr)


def clicks(args, rng):
    dense = rng.lognormal(0.0, 1.0, (args.batch_size, args.n_dense)).astype(np.float32)
    sparse = np.stack([rng.integers(0, n, args.batch_size) for n in CARDINALITIES], axis=1)
    label = (rng.random(args.batch_size) < 0.2 + 0.4 * (sparse[:, 1] % 2)).astype(np.float32)
    return torch.from_numpy(np.log1p(dense)), torch.from_numpy(sparse), torch.from_numpy(label)


def train_step(model, optimizer, dense, sparse, label):
    optimizer.zero_grad()
    logit = model(dense, sparse)
    loss = F.binary_cross_entropy_with_logits(logit, label)
    loss.backward()
    optimizer.step()
    return loss.detach(), logit.detach().sigmoid().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n-dense", type=int, default=6)
    ap.add_argument("--dim", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--weight-decay", type=float, default=0.05)
    ap.add_argument("--steps", type=int, default=5)
    args = ap.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    model = DLRM(args.n_dense, CARDINALITIES, args.dim).to(device)
    optimizer = build_optimizer(model, args)
    torch_xla.sync()
    for step in range(args.steps):
        batch = [t.to(device) for t in clicks(args, rng)]
        loss, ctr = train_step(model, optimizer, *batch)
        torch_xla.sync()
        print(f"step {step} bce {loss.item():.5f} ctr {ctr.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
