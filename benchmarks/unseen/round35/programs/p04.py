"""Heat-sink layout by density-based topology optimisation.

The state equation is solved with a coordinate network trained on the thermal
potential energy while the density field follows the compliance gradient.
"""
import math
import os
from dataclasses import dataclass

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Material:
    k_solid: float = 1.0
    k_void: float = 1e-3
    penal: float = 1.0
    penal_max: float = 4.0
    penal_step: float = 0.12

    def conductivity(self, rho):
        return self.k_void + (self.k_solid - self.k_void) * rho ** self.penal

    def advance(self):
        self.penal = min(self.penal_max, self.penal + self.penal_step)


@dataclass
class Projection:
    eta: float = 0.5
    beta: float = 1.0
    beta_max: float = 8.0

    def __call__(self, rho):
        low = math.tanh(self.beta * self.eta)
        high = math.tanh(self.beta * (1.0 - self.eta))
        return (low + torch.tanh(self.beta * (rho - self.eta))) / (low + high)

    def advance(self):
        self.beta = min(self.beta_max, self.beta * 1.08)


class DensityField(nn.Module):
    def __init__(self, n, volume_fraction, radius=2):
        super().__init__()
        start = math.log(volume_fraction / (1.0 - volume_fraction))
        self.logits = nn.Parameter(torch.full((1, 1, n, n), start) + 0.05 * torch.randn(1, 1, n, n))
        offsets = torch.arange(-radius, radius + 1).float()
        cone = (radius + 0.5 - torch.hypot(offsets[:, None], offsets[None, :])).clamp_min(0)
        self.register_buffer("kernel", (cone / cone.sum())[None, None])
        self.radius = radius

    def forward(self):
        rho = torch.sigmoid(self.logits)
        rho = F.pad(rho, [self.radius] * 4, mode="replicate")
        return F.conv2d(rho, self.kernel)[0, 0]


class TemperatureNet(nn.Module):
    """Fourier-feature network, clamped to zero on the sink segment of the left edge."""

    def __init__(self, n, num_features=16, width=32):
        super().__init__()
        axis = (torch.arange(n + 1).float()) / n
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        coords = torch.stack([xx, yy], dim=-1)
        angles = coords @ (2.0 * torch.randn(2, num_features))
        self.register_buffer("features", torch.cat([coords, angles.sin(), angles.cos()], dim=-1))
        sink = torch.sqrt(xx ** 2 + (yy - 0.5).abs().sub(0.15).clamp_min(0) ** 2)
        self.register_buffer("envelope", torch.tanh(4.0 * sink))
        self.net = nn.Sequential(nn.Linear(2 + 2 * num_features, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self):
        return self.envelope * self.net(self.features).squeeze(-1)


def dirichlet_energy(temp, k):
    """Element-wise 1/2 k |grad T|^2 on a unit square with bilinear cells."""
    dx = 0.5 * (temp[:-1, 1:] - temp[:-1, :-1] + temp[1:, 1:] - temp[1:, :-1])
    dy = 0.5 * (temp[1:, :-1] - temp[:-1, :-1] + temp[1:, 1:] - temp[:-1, 1:])
    return 0.5 * (k * (dx ** 2 + dy ** 2)).sum()


def heat_load(temp, source):
    n = temp.shape[0] - 1
    centre = 0.25 * (temp[:-1, :-1] + temp[1:, :-1] + temp[:-1, 1:] + temp[1:, 1:])
    return source * centre.sum() / (n * n)


def main(n=20, iterations=24, volume_fraction=0.4, source=2.0, report_every=6):
    torch.manual_seed(3)
    device = torch_xla.device()
    density = DensityField(n, volume_fraction).to(device)
    temperature = TemperatureNet(n).to(device)
    material, project = Material(), Projection()
    state_opt = torch.optim.Adam(temperature.parameters(), lr=5e-3)
    design_opt = torch.optim.Adam(density.parameters(), lr=5e-2)
    multiplier, stiffness = 0.5, 20.0

    for it in range(1, iterations + 1):
        rho = project(density())
        k = material.conductivity(rho)

        temp = temperature()
        stored = dirichlet_energy(temp, k.detach())
        potential = stored - heat_load(temp, source)
        state_opt.zero_grad()
        potential.backward()
        state_opt.step()

        frozen = temp.detach()
        compliance = dirichlet_energy(frozen, k)
        excess = rho.mean() - volume_fraction
        design_loss = -compliance + multiplier * excess + 0.5 * stiffness * excess ** 2
        design_opt.zero_grad()
        design_loss.backward()
        design_opt.step()
        xm.mark_step()

        material.advance()
        project.advance()
        if it % report_every == 0:
            gap = excess.item()
            multiplier += stiffness * gap
            grey = (4.0 * rho * (1.0 - rho)).mean().item()
            print(
                f"iter {it:3d}  potential {potential.item():8.4f}  volume {gap + volume_fraction:.3f}  "
                f"grey {grey:.3f}  p {material.penal:.2f}  beta {project.beta:.2f}"
            )

    layout = (project(density()) > 0.5).cpu()
    for row in layout[::2]:
        print("".join("#" if cell else "." for cell in row.tolist()))


if __name__ == "__main__":
    main()
