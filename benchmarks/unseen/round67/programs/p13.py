"""Retention-time alignment of LC-MS peak lists by entropic optimal transport.

A warping network maps (m/z, rt) of one run onto another; the loss is the transport cost between the
warped source peaks and the reference peaks.
"""
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 21
PEAKS = 48
STEPS = 24
EPS_START, EPS_END = 0.8, 0.014


class RunPairs:
    """Peak lists of one reference injection and drifting re-injections."""

    def __init__(self, n_compounds=400, seed=SEED):
        self.rng = np.random.default_rng(seed)
        self.mz = self.rng.uniform(-1, 1, n_compounds)
        self.rt = np.sort(self.rng.uniform(-1, 1, n_compounds))
        self.intensity = self.rng.lognormal(0, 0.7, n_compounds)

    @staticmethod
    def drift(rt):
        return rt + 0.25 * np.sin(2.1 * rt + 0.4) + 0.08 * rt ** 2

    def draw(self):
        pick = self.rng.choice(len(self.mz), PEAKS, replace=False)
        ref = np.stack([self.mz[pick], self.rt[pick]], 1)
        src = np.stack([self.mz[pick], self.drift(self.rt[pick])], 1)
        src += self.rng.normal(0, [0.004, 0.02], src.shape)
        shuffle = self.rng.permutation(PEAKS)
        w = self.intensity[pick] / self.intensity[pick].sum()
        arrays = (src[shuffle], w[shuffle], ref, w)
        return tuple(torch.as_tensor(a, dtype=torch.float32) for a in arrays)


class Warp(nn.Module):
    def __init__(self, knots=16):
        super().__init__()
        self.register_buffer("centres", torch.linspace(-1.3, 1.3, knots))
        self.log_width = nn.Parameter(torch.tensor(-1.2))
        self.coef = nn.Parameter(0.01 * torch.randn(knots))
        self.mz_gain = nn.Parameter(torch.zeros(knots))

    def forward(self, peaks):
        mz, rt = peaks[:, 0], peaks[:, 1]
        basis = torch.exp(-((rt[:, None] - self.centres) / self.log_width.exp()) ** 2)
        shift = basis @ self.coef + mz * (basis @ self.mz_gain)
        return torch.stack([mz, rt + shift], 1)


def pairwise_cost(a, b):
    scale = a.new_tensor([4.0, 1.0])
    return (((a[:, None] - b[None]) * scale) ** 2).sum(-1)


def transport(cost, log_a, log_b, eps, tol=0.03, max_iter=80):
    f, g = torch.zeros_like(log_a), torch.zeros_like(log_b)
    for _ in range(max_iter):
        f_prev = f
        f = -eps * torch.logsumexp((g[None] - cost) / eps + log_b[None], dim=1)
        g = -eps * torch.logsumexp((f[:, None] - cost) / eps + log_a[:, None], dim=0)
        if (f - f_prev).abs().max() < tol * eps:
            break
    log_plan = (f[:, None] + g[None] - cost) / eps + log_a[:, None] + log_b[None]
    return log_plan.exp()


def bending_energy(model):
    c = model.coef
    return ((c[2:] - 2 * c[1:-1] + c[:-2]) ** 2).sum()


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    pairs = RunPairs()
    model = Warp().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=8e-3)
    decay = (EPS_END / EPS_START) ** (1.0 / (STEPS - 1))

    eps = EPS_START
    for step in range(STEPS):
        src, w_src, ref, w_ref = (z.to(device) for z in pairs.draw())
        cost = pairwise_cost(model(src), ref)
        plan = transport(cost, w_src.log(), w_ref.log(), eps)
        loss = (plan * cost).sum() + 1e-3 * bending_energy(model)

        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        xm.mark_step()
        eps *= decay
        if step % 6 == 5:
            print(f"step {step + 1:3d}  eps {eps:.3f}  cost {loss.item():.5f}  mass {plan.sum().item():.3f}")

    grid = torch.linspace(-1, 1, 5)
    probe = torch.stack([torch.zeros(5), torch.as_tensor(RunPairs.drift(grid.numpy()))], 1).to(device)
    with torch.no_grad():
        residual = model(probe)[:, 1].cpu() - grid
    print("residual drift:", [round(r, 3) for r in residual.tolist()])


if __name__ == "__main__":
    main()
