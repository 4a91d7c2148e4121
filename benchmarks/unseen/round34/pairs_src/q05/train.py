"""Solubility regression with a GIN on padded molecular graphs (dense adjacency), XLA."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ATOMS, BONDS, MAXN, DIM = 9, 3, 14, 16


class GINLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(()))
        self.rel = nn.Parameter(torch.randn(BONDS, d, d) * d ** -0.5)
        self.lin = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, h, adj, mask):
        msg = torch.einsum("brij,rde,bje->bid", adj, self.rel, h)
        out = self.norm(self.lin((1 + self.eps) * h + msg))
        return F.leaky_relu(out, 0.1) * mask.unsqueeze(-1)


class MolNet(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.atom = nn.Linear(ATOMS, DIM, bias=False)
        self.layers = nn.ModuleList([GINLayer(DIM) for _ in range(layers)])
        self.gate = nn.Linear(DIM, 1)
        self.out = nn.Linear(DIM, 2)

    def forward(self, x, adj, mask):
        h = self.atom(x)
        reps = []
        for layer in self.layers:
            h = layer(h, adj, mask)
            reps.append(h)
        h = torch.stack(reps).amax(0)
        score = self.gate(h).squeeze(-1).masked_fill(mask < 0.5, -1e4)
        pooled = (torch.softmax(score, -1).unsqueeze(-1) * h).sum(1)
        mean, raw = self.out(pooled).unbind(-1)
        return mean, F.softplus(raw) + 1e-3


def molecules(n, seed):
    r = np.random.RandomState(seed)
    x = np.zeros((n, MAXN, ATOMS), np.float32)
    adj = np.zeros((n, BONDS, MAXN, MAXN), np.float32)
    mask = np.zeros((n, MAXN), np.float32)
    for m in range(n):
        k = r.randint(5, MAXN + 1)
        x[m, np.arange(k), r.randint(0, ATOMS, k)] = 1
        mask[m, :k] = 1
        for i in range(1, k):
            j, b = r.randint(0, i), r.randint(BONDS)
            adj[m, b, i, j] = adj[m, b, j, i] = 1
    y = x[:, :, :4].sum((1, 2)) / mask.sum(1) + 0.1 * r.randn(n)
    return [torch.from_numpy(t) for t in (x, adj, mask, y.astype(np.float32))]


class Trainer:
    def __init__(self, model, lr, betas=(0.9, 0.98)):
        self.model = model
        self.opt = torch.optim.RAdam(model.parameters(), lr=lr, betas=betas, weight_decay=1e-4,
                                     decoupled_weight_decay=True)
        self.sched = torch.optim.lr_scheduler.LinearLR(self.opt, 0.2, 1.0, total_iters=20)

    def step(self, x, adj, mask, y):
        self.model.train()
        mean, std = self.model(x, adj, mask)
        loss = F.gaussian_nll_loss(mean, y, std.square())
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.sched.step()
        xm.mark_step()
        return loss.detach()


def main(steps=9, bs=16):
    torch.manual_seed(0)
    dev = torch_xla.device()
    tr = Trainer(MolNet().to(dev), lr=3e-3)
    data = molecules(bs * 3, 0)
    for s in range(steps):
        lo = (s % 3) * bs
        loss = tr.step(*[t[lo:lo + bs].to(dev) for t in data])
        if s % 3 == 2:
            print(f"step {s + 1}: nll {loss.item():.4f}")


if __name__ == "__main__":
    main()
