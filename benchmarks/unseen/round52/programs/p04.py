"""Predicting single-cell perturbation response with an optimal transport loss.

Control cells and treated cells are measured in different wells, so there is no
pairing.  A residual network pushes control profiles forward, and the entropic
OT cost between pushed and treated populations is minimised.
"""
import argparse
import logging

import torch
import torch.nn as nn
import torch_xla

log = logging.getLogger("cellot")


class PushForward(nn.Module):
    def __init__(self, genes, doses, hidden=32):
        super().__init__()
        self.dose = nn.Embedding(doses, 8)
        self.net = nn.Sequential(
            nn.Linear(genes + 8, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, genes),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x, dose):
        return x + self.net(torch.cat([x, self.dose(dose)], dim=-1))


class SinkhornDistance(nn.Module):
    """Entropy-regularised OT cost in the log domain, differentiable in x and y."""

    def __init__(self, eps, max_iter, thresh=1e-1):
        super().__init__()
        self.eps = eps
        self.max_iter = max_iter
        self.thresh = thresh

    def forward(self, x, y):
        C = (x[:, None, :] - y[None, :, :]).square().mean(-1)
        n, m = C.shape
        log_mu = torch.full((n,), 1.0 / n, device=x.device).log()
        log_nu = torch.full((m,), 1.0 / m, device=x.device).log()
        u = torch.zeros_like(log_mu)
        v = torch.zeros_like(log_nu)

        for i in range(self.max_iter):
            u_prev = u
            u = self.eps * (log_mu - torch.logsumexp(self.M(C, u, v), dim=1)) + u
            v = self.eps * (log_nu - torch.logsumexp(self.M(C, u, v).t(), dim=1)) + v
            err = (u - u_prev).abs().sum()
            if err.item() < self.thresh:
                break

        pi = torch.exp(self.M(C, u, v))
        return (pi * C).sum(), pi

    def M(self, C, u, v):
        return (-C + u[:, None] + v[None, :]) / self.eps


class Wells:
    """Synthetic screen: three cell states, a dose-dependent shift on half of them."""

    def __init__(self, genes, doses, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.genes = genes
        self.doses = doses
        self.centres = torch.randn(3, genes, generator=self.gen)
        self.effect = torch.randn(genes, generator=self.gen) * 0.8

    def _cells(self, n):
        state = torch.randint(0, 3, (n,), generator=self.gen)
        noise = 0.25 * torch.randn(n, self.genes, generator=self.gen)
        return self.centres[state] + noise, state

    def draw(self, n):
        dose = int(torch.randint(0, self.doses, (1,), generator=self.gen))
        control, _ = self._cells(n)
        treated, state = self._cells(n)
        strength = (dose + 1) / self.doses
        treated = treated + strength * self.effect * (state != 0).float()[:, None]
        return control, treated, torch.full((n,), dose, dtype=torch.long)


def evaluate(model, wells, device, n=32):
    with torch.no_grad():
        control, treated, dose = (t.to(device) for t in wells.draw(n))
        pushed = model(control, dose)
        return (pushed.mean(0) - treated.mean(0)).square().mean().sqrt()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--genes", type=int, default=20)
    ap.add_argument("--doses", type=int, default=4)
    ap.add_argument("--cells", type=int, default=24)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--eps", type=float, default=0.3)
    ap.add_argument("--max-iter", type=int, default=20)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")

    torch.manual_seed(7)
    device = torch_xla.device()
    wells = Wells(args.genes, args.doses, seed=7)
    model = PushForward(args.genes, args.doses).to(device)
    sinkhorn = SinkhornDistance(args.eps, args.max_iter)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)

    for step in range(1, args.steps + 1):
        control, treated, dose = (t.to(device) for t in wells.draw(args.cells))
        pushed = model(control, dose)
        cost, plan = sinkhorn(pushed, treated)
        drift = (pushed - control).square().mean()
        loss = cost + 0.01 * drift
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()

        if step % 5 == 0:
            rmse = evaluate(model, wells, device)
            log.info("step %3d  ot %.4f  mean-shift rmse %.4f", step, cost.item(), rmse.item())


if __name__ == "__main__":
    main()
