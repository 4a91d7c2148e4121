"""Multi-task regression (four molecular-property style targets) with projected
conflicting gradients (PCGrad) on a shared trunk."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TASKS = ("logp", "solubility", "gap", "dipole")


class Trunk(nn.Module):
    def __init__(self, n_in, dim):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
            for _ in range(1))

    def forward(self, x):
        h = self.inp(x)
        for blk in self.blocks:
            h = h + blk(h)
        return h


class MultiTask(nn.Module):
    def __init__(self, n_in=48, dim=32):
        super().__init__()
        self.trunk = Trunk(n_in, dim)
        self.heads = nn.ModuleDict({t: nn.Linear(dim, 1) for t in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {t: head(h).squeeze(-1) for t, head in self.heads.items()}


class PCGrad:
    """Gradient surgery around an ordinary optimizer."""

    def __init__(self, optimizer, shared, specific):
        self.optim = optimizer
        self.shared = list(shared)
        self.specific = list(specific)
        self.sizes = [p.numel() for p in self.shared]

    def zero_grad(self):
        self.optim.zero_grad(set_to_none=True)

    def step(self):
        self.optim.step()

    def backward(self, losses):
        flat, own = [], []
        for loss in losses:
            grads = torch.autograd.grad(
                loss, self.shared + self.specific, retain_graph=True, allow_unused=True)
            flat.append(torch.cat([g.reshape(-1) for g in grads[: len(self.shared)]]))
            own.append(grads[len(self.shared):])
        merged = self._project(flat)
        for p, g in zip(self.shared, merged.split(self.sizes)):
            p.grad = g.view_as(p)
        for p, gs in zip(self.specific, zip(*own)):
            gs = [g for g in gs if g is not None]
            p.grad = sum(gs[1:], gs[0])

    @staticmethod
    def _project(grads):
        norms = [g.dot(g) + 1e-12 for g in grads]
        projected = []
        for i, g in enumerate(grads):
            others = [j for j in range(len(grads)) if j != i]
            random.shuffle(others)
            for j in others:
                coef = torch.clamp(g.dot(grads[j]) / norms[j], max=0)
                g = g - coef * grads[j]
            projected.append(g)
        return torch.stack(projected).mean(0)


def make_data(n, n_in, gen):
    x = torch.randn(n, n_in, generator=gen)
    base = torch.randn(n_in, len(TASKS), generator=gen) / n_in ** 0.5
    y = torch.tanh(x @ base) + 0.3 * (x[:, : len(TASKS)] * x[:, 1 : len(TASKS) + 1])
    return x, y + 0.05 * torch.randn(n, len(TASKS), generator=gen)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    out = model(x)
    mae = torch.stack([(out[t] - y[:, i]).abs().mean() for i, t in enumerate(TASKS)])
    torch_xla.sync()
    model.train()
    return mae.cpu()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=24)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--eval-every", type=int, default=8)
    args = ap.parse_args()

    random.seed(5)
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()

    x, y = make_data(640, 48, gen)
    x_val, y_val = x[512:].to(device), y[512:].to(device)
    x, y = x[:512], y[:512]

    model = MultiTask().to(device)
    base = torch.optim.AdamW(model.parameters(), lr=3e-3)
    opt = PCGrad(base, model.trunk.parameters(), model.heads.parameters())

    for step in range(1, args.steps + 1):
        idx = torch.randint(len(x), (args.batch_size,), generator=gen)
        xb, yb = x[idx].to(device), y[idx].to(device)
        opt.zero_grad()
        preds = model(xb)
        losses = [F.smooth_l1_loss(preds[t], yb[:, i]) for i, t in enumerate(TASKS)]
        opt.backward(losses)
        opt.step()
        torch_xla.sync()
        if step % args.eval_every == 0:
            mae = evaluate(model, x_val, y_val)
            shown = " ".join(f"{t}={m:.3f}" for t, m in zip(TASKS, mae.tolist()))
            print(f"step {step} {shown}")


if __name__ == "__main__":
    main()
