"""Physics-informed network for a Newtonian cooling line.

dT/ds = -k (T - T_amb(s)) along a conveyor, with an unknown k that is inferred
together with the profile from a handful of thermocouples. Adam for a rough
fit, then a quasi-Newton phase to bring the residual down.
"""
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

K_TRUE = 2.4
N_INTERIOR = 64
N_SENSORS = 9
ADAM_STEPS = 12
NEWTON_STEPS = 10
SEED = 2024


def ambient(s):
    return 0.2 + 0.1 * torch.cos(math.pi * s)


def reference_profile(s, substeps=200):
    out = np.empty_like(s)
    for i, end in enumerate(s):
        temp, h = 1.0, end / substeps
        for j in range(substeps):
            amb = 0.2 + 0.1 * math.cos(math.pi * (j + 0.5) * h)
            temp += h * -K_TRUE * (temp - amb)
        out[i] = temp
    return out


class Profile(nn.Module):

    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, width), nn.Tanh(),
                                  nn.Linear(width, 1))
        for m in self.body:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)
        self.log_k = nn.Parameter(torch.zeros(()))

    def forward(self, s):
        return 1.0 + s * self.body(s.unsqueeze(-1)).squeeze(-1)


def stratified(n, rng):
    return ((np.arange(n) + rng.random(n)) / n).astype(np.float32)


def collect(rng, device):
    s_obs = np.linspace(0.1, 0.95, N_SENSORS)
    t_obs = reference_profile(s_obs) + rng.normal(0, 0.005, N_SENSORS)
    arrays = dict(s_f=stratified(N_INTERIOR, rng), s_obs=s_obs, t_obs=t_obs)
    return {k: torch.from_numpy(v.astype(np.float32)).to(device)
            for k, v in arrays.items()}


class Problem:

    def __init__(self, net, pts):
        self.net = net
        self.pts = pts

    def residual(self):
        s = self.pts['s_f'].detach().requires_grad_(True)
        temp = self.net(s)
        slope, = torch.autograd.grad(temp.sum(), s, create_graph=True)
        return slope + self.net.log_k.exp() * (temp - ambient(s))

    def loss(self):
        ode = self.residual().square().mean()
        fit = (self.net(self.pts['s_obs']) - self.pts['t_obs']).square().mean()
        return ode + 20.0 * fit


def adam_phase(problem):
    opt = torch.optim.Adam(problem.net.parameters(), lr=2e-2)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    for step in range(ADAM_STEPS):
        opt.zero_grad()
        loss = problem.loss()
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        if step % 3 == 0:
            print(f'adam   {step:3d} loss {loss.item():.5f}')


def newton_phase(problem):
    opt = torch.optim.LBFGS(problem.net.parameters(), lr=0.5, max_iter=1,
                            tolerance_grad=1e-9, tolerance_change=1e-12)

    def closure():
        opt.zero_grad()
        loss = problem.loss()
        loss.backward()
        return loss

    for step in range(NEWTON_STEPS):
        loss = opt.step(closure)
        xm.mark_step()
        if step % 3 == 0:
            print(f'lbfgs  {step:3d} loss {loss.item():.6f}')


@torch.no_grad()
def report(net, device):
    s = torch.linspace(0, 1, 6).to(device)
    temp, k = net(s), net.log_k.exp()
    xm.mark_step()
    print(f'k = {k.item():.3f}  T =', ' '.join(f'{v:.3f}' for v in temp.cpu().tolist()))


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()
    net = Profile().to(device)
    problem = Problem(net, collect(rng, device))
    report(net, device)
    started = time.time()
    adam_phase(problem)
    newton_phase(problem)
    report(net, device)
    print(f'done in {time.time() - started:.1f}s')


if __name__ == '__main__':
    main()
