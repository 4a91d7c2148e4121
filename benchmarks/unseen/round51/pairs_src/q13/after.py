"""Neural ODE for a two-compartment drug model: learned clearance/uptake terms,
fixed-step explicit Runge-Kutta between the sampling times, robust loss on log
concentrations."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_PAT, N_STATE, N_COV, HID = 10, 3, 4, 14
N_OBS, DT = 2, 0.25
DELTA = 0.3

# Butcher tableaus: (strictly lower triangle of A, weights b)
RK4 = (((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6))


def combine(coeffs, slopes):
    """sum_i c_i * k_i, skipping the zero entries of the tableau."""
    total = None
    for c, k in zip(coeffs, slopes):
        if c == 0.0:
            continue
        term = k if c == 1.0 else c * k
        total = term if total is None else total + term
    return total


def explicit_rk(f, y, dt, tableau):
    a, b = tableau
    slopes = []
    for row in a:
        shift = combine(row, slopes)
        slopes.append(f(y if shift is None else y + dt * shift))
    return y + dt * combine(b, slopes)


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(N_STATE + N_COV + 1, HID)
        self.out = nn.Linear(HID, N_STATE)
        self.log_decay = nn.Parameter(torch.tensor([-1.0, -1.5, -0.7]))

    def forward(self, y, context):
        h = torch.cat([y, context], dim=1)
        h = torch.tanh(self.inp(h))
        return self.out(h) - torch.exp(self.log_decay) * y


class Model(nn.Module):
    def __init__(self, tableau=RK4):
        super().__init__()
        self.f = Dynamics()
        self.init = nn.Linear(N_COV, N_STATE)
        self.readout = nn.Linear(N_STATE, 1)
        self.tableau = tableau

    def forward(self, cov, dose):
        y = torch.tanh(self.init(cov))
        states = []
        for d in dose.split(1, dim=1):
            context = torch.cat([cov, d], dim=1)
            y = explicit_rk(lambda s: self.f(s, context), y, DT, self.tableau)
            states.append(y)
        return self.readout(torch.stack(states, dim=1)).squeeze(-1)


def robust_loss(pred, target, mask):
    err = (pred - target).abs()
    quad = err.clamp(max=DELTA)
    per_obs = quad * (err - 0.5 * quad)
    return (per_obs * mask).sum() / mask.sum()


def make_batch(gen, device):
    cov = torch.randn(N_PAT, N_COV, generator=gen)
    dose = torch.rand(N_PAT, N_OBS, generator=gen)
    target = torch.cumsum(dose, dim=1) - 0.3 * cov[:, :1] + 0.2 * torch.randn(N_PAT, N_OBS, generator=gen)
    mask = (torch.rand(N_PAT, N_OBS, generator=gen) > 0.2).float()
    return [t.to(device) for t in (cov, dose, target, mask)]


def main():
    steps = int(os.environ.get("STEPS", 2))
    device = torch_xla.device()
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(8)
    model = Model().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.95, eps=1e-6)
    torch_xla.sync()

    for step in range(1, steps + 1):
        cov, dose, target, mask = make_batch(gen, device)
        opt.zero_grad()
        loss = robust_loss(model(cov, dose), target, mask)
        loss.backward()
        opt.step()

        if step == steps and len(sys.argv) > 1:
            params = list(model.parameters())
            live = [loss] + [p.data for p in params] + [p.grad for p in params]
            live += [opt.state[p]["square_avg"] for p in params]
            with open(sys.argv[1], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, repr(loss.item()), repr(sum(p.double().abs().sum().item() for p in model.cpu().parameters())) if step == steps else "")


if __name__ == "__main__":
    main()
