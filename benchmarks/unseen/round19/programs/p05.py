"""Multi-outcome treatment-effect network; outcome gradients are reconciled before each update."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OUTCOMES = ("propensity", "readmission", "stay_length", "cost")
N_COVARIATES = 20


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, N_COVARIATES)).astype(np.float32)
    propensity = 1 / (1 + np.exp(-(0.8 * x[:, 0] - 0.5 * x[:, 1])))
    t = (rng.random(n) < propensity).astype(np.float32)
    tau = 1.0 + 0.5 * x[:, 2]
    y = np.stack(
        [
            np.sin(x[:, 3]) + t * tau,
            0.5 * x[:, 4] ** 2 - 0.4 * t * tau,
            x[:, 5] * x[:, 0] + 0.8 * t * tau,
        ],
        axis=1,
    )
    y += 0.3 * rng.normal(size=y.shape)
    return torch.from_numpy(x), torch.from_numpy(t), torch.from_numpy(y.astype(np.float32)), float(tau.mean())


class EffectNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(N_COVARIATES, width), nn.ELU())
        self.propensity = nn.Linear(width, 1)
        self.mu0 = nn.Linear(width, 3)
        self.mu1 = nn.Linear(width, 3)

    def forward(self, x):
        z = self.trunk(x)
        return self.propensity(z).squeeze(1), self.mu0(z), self.mu1(z)


def outcome_losses(net, x, t, y):
    logit, mu0, mu1 = net(x)
    factual = torch.where(t[:, None] > 0.5, mu1, mu0)
    losses = [F.binary_cross_entropy_with_logits(logit, t)]
    losses += [F.mse_loss(factual[:, k], y[:, k]) for k in range(3)]
    return losses


def flat_gradients(losses, params):
    rows = []
    for loss in losses:
        grads = torch.autograd.grad(loss, params, retain_graph=True, allow_unused=True)
        rows.append(torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(params, grads)]))
    return rows


def reconcile(rows):
    """Take out of each outcome's gradient the part that works against another outcome."""
    result = []
    for i, g in enumerate(rows):
        g = g.clone()
        others = [j for j in range(len(rows)) if j != i]
        random.shuffle(others)
        for j in others:
            h = rows[j]
            conflict = torch.clamp(torch.dot(g, h), max=0.0)
            g = g - conflict / (torch.dot(h, h) + 1e-12) * h
        result.append(g)
    return torch.stack(result).sum(0)


def assign(params, flat):
    offset = 0
    for p in params:
        n = p.numel()
        p.grad = flat[offset : offset + n].view_as(p)
        offset += n


def main():
    random.seed(13)
    torch.manual_seed(13)
    device = xm.xla_device()
    x, t, y, true_ate = simulate(960, seed=31)
    net = EffectNet().to(device)
    params = list(net.parameters())
    optimizer = torch.optim.SGD(params, lr=0.05)

    step = 0
    for epoch in range(3):
        order = torch.randperm(len(x))
        for rows in order.split(96):
            bx, bt, by = x[rows].to(device), t[rows].to(device), y[rows].to(device)
            losses = outcome_losses(net, bx, bt, by)
            assign(params, reconcile(flat_gradients(losses, params)))
            optimizer.step()
            torch_xla.sync()
            step += 1
        report = ", ".join(f"{name} {value:.3f}" for name, value in zip(OUTCOMES, torch.stack(losses).tolist()))
        print(f"epoch {epoch} ({step} updates): {report}")

    with torch.no_grad():
        _, mu0, mu1 = net(x.to(device))
        ate = (mu1 - mu0).mean(0).cpu()
    print(f"estimated effect on first outcome {ate[0]:.3f} (simulated {true_ate:.3f})")


if __name__ == "__main__":
    main()
