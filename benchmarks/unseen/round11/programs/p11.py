"""Multi-task churn / spend / tenure model on customer records."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = ("churn", "spend", "tenure")


class FeatureTokens(nn.Module):
    def __init__(self, cardinalities, n_numeric, dim):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        self.numeric = nn.Linear(n_numeric, dim)

    def forward(self, cat, num):
        parts = [table(cat[:, i]) for i, table in enumerate(self.tables)]
        parts.append(self.numeric(num))
        return torch.cat(parts, dim=1)


class Trunk(nn.Module):
    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.norm = nn.LayerNorm(d_hidden)
        self.fc2 = nn.Linear(d_hidden, d_hidden)

    def forward(self, x):
        h = F.gelu(self.norm(self.fc1(x)))
        return h + F.gelu(self.fc2(h))


class MultiTaskNet(nn.Module):
    def __init__(self, cardinalities=(12, 7, 30), n_numeric=6, dim=8, hidden=32):
        super().__init__()
        self.tokens = FeatureTokens(cardinalities, n_numeric, dim)
        self.trunk = Trunk(dim * (len(cardinalities) + 1), hidden)
        self.heads = nn.ModuleDict({t: nn.Linear(hidden, 1) for t in TASKS})

    def forward(self, cat, num):
        h = self.trunk(self.tokens(cat, num))
        return {t: head(h).squeeze(-1) for t, head in self.heads.items()}


class UncertaintyBalancer(nn.Module):
    """Kendall et al. weighting; the log variances are smoothed so that one
    noisy batch does not swing the balance between the tasks."""

    def __init__(self, n_tasks, momentum=0.9):
        super().__init__()
        self.momentum = momentum
        self.log_vars = nn.Parameter(torch.zeros(n_tasks))
        self.register_buffer("smoothed", torch.zeros(n_tasks))

    def forward(self, losses):
        losses = torch.stack(losses)
        self.smoothed = torch.lerp(self.smoothed, self.log_vars, 1 - self.momentum)
        return (torch.exp(-self.smoothed) * losses + self.smoothed).sum()


def customers(n, seed):
    g = torch.Generator().manual_seed(seed)
    cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in (12, 7, 30)], dim=1)
    num = torch.randn(n, 6, generator=g)
    target = {
        "churn": (num[:, 0] + 0.3 * num[:, 1] > 0).float(),
        "spend": num[:, 2] * 2 + cat[:, 0].float() / 6,
        "tenure": num[:, 3].abs(),
    }
    return cat, num, target


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    torch.manual_seed(1)
    device = xm.xla_device()
    net = MultiTaskNet().to(device)
    balancer = UncertaintyBalancer(len(TASKS)).to(device)
    opt = torch.optim.AdamW(
        [{"params": net.parameters()}, {"params": balancer.parameters(), "weight_decay": 0.0}], lr=args.lr)
    criteria = {
        "churn": F.binary_cross_entropy_with_logits,
        "spend": F.mse_loss,
        "tenure": F.l1_loss,
    }
    start = time.time()
    for step in range(args.steps):
        cat, num, target = customers(args.batch, seed=step)
        cat, num = cat.to(device), num.to(device)
        target = {k: v.to(device) for k, v in target.items()}
        opt.zero_grad()
        out = net(cat, num)
        loss = balancer([criteria[t](out[t], target[t]) for t in TASKS])
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 6 == 5:
            print(f"step {step + 1} loss {loss.item():.4f} weights "
                  f"{[round(w, 3) for w in torch.exp(-balancer.log_vars.detach().cpu()).tolist()]} "
                  f"{time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
