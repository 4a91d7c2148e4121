"""Neural ODE for a two-compartment drug model: learned clearance/uptake terms,
fixed-step RK4 between the sampling times, robust loss on log concentrations."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_PAT, N_STATE, N_COV, HID = 10, 3, 4, 14
N_OBS, DT = 2, 0.25
DELTA = 0.3


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(N_STATE + N_COV + 1, HID)
        self.out = nn.Linear(HID, N_STATE)
        self.log_decay = nn.Parameter(torch.tensor([-1.0, -1.5, -0.7]))

    def forward(self, y, cov, dose):
        h = torch.cat([y, cov, dose], dim=1)
        h = torch.tanh(self.inp(h))
        return self.out(h) - torch.exp(self.log_decay) * y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = Dynamics()
        self.init = nn.Linear(N_COV, N_STATE)
        self.readout = nn.Linear(N_STATE, 1)

    def step(self, y, cov, dose, dt):
        k1 = self.f(y, cov, dose)
        k2 = self.f(y + 0.5 * dt * k1, cov, dose)
        k3 = self.f(y + 0.5 * dt * k2, cov, dose)
        k4 = self.f(y + dt * k3, cov, dose)
        return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def forward(self, cov, dose):
        y = torch.tanh(self.init(cov))
        preds = []
        for i in range(N_OBS):
            y = self.step(y, cov, dose[:, i:i + 1], DT)
            preds.append(self.readout(y))
        return torch.cat(preds, dim=1)


def robust_loss(pred, target, mask):
    per_obs = F.huber_loss(pred, target, reduction="none", delta=DELTA)
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
