"""Calibrate a small two-bucket rainfall-runoff model for a few catchments.

Each catchment has its own eight parameters (unconstrained, squashed into
physical ranges); the objective is 1 - NSE on the log discharge plus a weak prior.
"""
import math

import torch
import torch_xla

DEVICE = torch_xla.device()
DAYS = 5
BASINS = 4
ITERATIONS = 20

RANGES = [
    (20.0, 300.0),   # upper storage capacity [mm]
    (0.05, 0.90),    # quick flow coefficient
    (0.01, 0.30),    # percolation
    (0.001, 0.10),   # base flow coefficient
    (0.5, 1.2),      # evaporation correction
]


def synthetic_forcing(seed):
    g = torch.Generator().manual_seed(seed)
    wet = (torch.rand(DAYS, BASINS, generator=g) < 0.45).float()
    rain = wet * torch.empty(DAYS, BASINS).exponential_(0.1, generator=g)
    season = torch.sin(torch.linspace(0, math.pi, DAYS)).unsqueeze(1)
    pet = 1.0 + 2.5 * season.expand(DAYS, BASINS)
    return rain, pet.contiguous()


def physical(theta):
    lo = torch.tensor([r[0] for r in RANGES], device=theta.device)
    hi = torch.tensor([r[1] for r in RANGES], device=theta.device)
    return lo + (hi - lo) * torch.sigmoid(theta)


def simulate(theta, rain, pet):
    cap, kq, perc, kb, ce = physical(theta).unbind(-1)
    upper = 0.3 * cap
    lower = 20.0 * torch.ones_like(cap)
    flow = []
    for r, e in zip(rain.unbind(0), pet.unbind(0)):
        wetness = upper / cap
        quick = kq * wetness * r
        seep = perc * upper
        upper = torch.relu(upper + r - quick - seep - ce * e * wetness)
        base = kb * lower
        lower = lower + seep - base
        flow.append(quick + base)
    return torch.stack(flow)


def objective(theta, rain, pet, q_log):
    sim = torch.log(simulate(theta, rain, pet) + 0.01)
    err = ((sim - q_log) ** 2).sum(0)
    var = ((q_log - q_log.mean(0)) ** 2).sum(0)
    return (err / var).mean() + 1e-3 * theta.pow(2).mean()


def main():
    torch.manual_seed(11)
    rain, pet = synthetic_forcing(3)
    truth = torch.randn(BASINS, len(RANGES)) * 0.8
    q_obs = simulate(truth, rain, pet)
    q_obs = q_obs * torch.exp(0.05 * torch.randn_like(q_obs))
    q_log = torch.log(q_obs + 0.01).to(DEVICE)
    rain, pet = rain.to(DEVICE), pet.to(DEVICE)

    theta = torch.zeros(BASINS, len(RANGES), device=DEVICE, requires_grad=True)
    optimizer = torch.optim.LBFGS([theta], lr=0.3, max_iter=1, history_size=100)

    def closure():
        optimizer.zero_grad()
        loss = objective(theta, rain, pet, q_log)
        loss.backward()
        torch_xla.sync()
        return loss

    for it in range(ITERATIONS):
        loss = optimizer.step(closure)
        torch_xla.sync()
        if it % 5 == 0 or it == ITERATIONS - 1:
            print(f"iteration {it:3d}  objective {loss.item():.4f}")

    best = physical(theta.detach()).cpu()
    for b in range(BASINS):
        print("basin", b, " ".join(f"{v:8.3f}" for v in best[b].tolist()))


if __name__ == "__main__":
    main()
