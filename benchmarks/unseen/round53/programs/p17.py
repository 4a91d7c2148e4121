"""MAML on sinusoid / sawtooth regression tasks (second order, learned inner rates)."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.func import functional_call


class TaskFamily:
    """Random wave regression: amplitude, phase, frequency and shape differ per task."""

    def __init__(self, shots, queries, seed):
        self.shots, self.queries = shots, queries
        self.gen = torch.Generator().manual_seed(seed)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(*shape, generator=self.gen)

    def draw(self):
        amp = self.uniform(0.2, 3.0, 1)
        phase = self.uniform(0, math.pi, 1)
        freq = self.uniform(0.8, 1.2, 1)
        n = self.shots + self.queries
        x = self.uniform(-4, 4, n, 1)
        z = freq * x + phase
        if self.uniform(0, 1, 1).item() < 0.25:
            y = amp * (2 * torch.remainder(z / (2 * math.pi), 1.0) - 1)
        else:
            y = amp * torch.sin(z)
        return (x[: self.shots], y[: self.shots]), (x[self.shots :], y[self.shots :])


class Regressor(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, hidden), nn.Tanh(),
            nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.net(x)


class MetaLearner(nn.Module):
    def __init__(self, model, inner_lr=0.05, max_inner=4, tol=0.25):
        super().__init__()
        self.model = model
        self.max_inner, self.tol = max_inner, tol
        names = [n.replace(".", "_") for n, _ in model.named_parameters()]
        self.log_lr = nn.ParameterDict(
            {n: nn.Parameter(torch.tensor(math.log(inner_lr))) for n in names}
        )

    def adapt(self, support):
        x, y = support
        fast = dict(self.model.named_parameters())
        for _ in range(self.max_inner):
            loss = F.mse_loss(functional_call(self.model, fast, (x,)), y)
            if loss.item() < self.tol:
                break
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {
                n: p - self.log_lr[n.replace(".", "_")].exp() * g
                for (n, p), g in zip(fast.items(), grads)
            }
        return fast

    def forward(self, support, query):
        fast = self.adapt(support)
        x, y = query
        return F.mse_loss(functional_call(self.model, fast, (x,)), y)


def to_device(task, device):
    return [tuple(t.to(device) for t in part) for part in task]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--meta-steps", type=int, default=18)
    p.add_argument("--meta-batch", type=int, default=3)
    p.add_argument("--shots", type=int, default=10)
    p.add_argument("--queries", type=int, default=15)
    p.add_argument("--meta-lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=17)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    device = torch_xla.device()
    tasks = TaskFamily(args.shots, args.queries, args.seed)
    meta = MetaLearner(Regressor()).to(device)
    opt = torch.optim.Adam(
        [
            {"params": meta.model.parameters(), "lr": args.meta_lr},
            {"params": meta.log_lr.parameters(), "lr": 0.1 * args.meta_lr},
        ]
    )
    ema = None
    xm.mark_step()

    for step in range(1, args.meta_steps + 1):
        opt.zero_grad()
        losses = []
        for _ in range(args.meta_batch):
            support, query = to_device(tasks.draw(), device)
            losses.append(meta(support, query))
        meta_loss = torch.stack(losses).mean()
        meta_loss.backward()
        nn.utils.clip_grad_norm_(meta.parameters(), 5.0)
        opt.step()
        xm.mark_step()

        value = meta_loss.item()
        ema = value if ema is None else 0.9 * ema + 0.1 * value
        if step % 3 == 0:
            print(f"meta step {step:3d} query loss {value:.4f} ema {ema:.4f}")


if __name__ == "__main__":
    main()
