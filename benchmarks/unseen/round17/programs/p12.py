"""Calibrating a thermal sensor array with a truncated-Newton method.

The net is tiny, the data are clean, and first-order methods crawl along the
valley; a few Newton steps with conjugate gradients on the Gauss-Newton-like
damped Hessian do the job.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla
from torch.nn.utils import parameters_to_vector


@dataclass
class NewtonConfig:
    outer_steps: int = 24
    batch: int = 64
    cg_max_iter: int = 14
    cg_rtol: float = 0.15
    damping: float = 0.05
    step_size: float = 0.5
    report_every: int = 6


class CalibrationNet(nn.Module):
    def __init__(self, sensors=6, hidden=8):
        super().__init__()
        self.inp = nn.Linear(sensors, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, volts):
        return self.out(torch.tanh(self.inp(volts))).squeeze(-1)


class ArrayBench:
    """Draws calibration points; the reference follows a smooth polynomial."""

    def __init__(self, sensors=6, seed=11):
        self.gen = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(sensors, generator=self.gen)

    def draw(self, n):
        v = torch.randn(n, self.mix.numel(), generator=self.gen)
        s = v @ self.mix
        return v, torch.sin(0.4 * s) + 0.05 * s


def objective(net, volts, ref):
    return 0.5 * (net(volts) - ref).square().mean()


def flat_grad(loss, params, create_graph=False):
    grads = torch.autograd.grad(loss, params, create_graph=create_graph, retain_graph=True)
    return torch.cat([g.reshape(-1) for g in grads])


def make_hvp(grad_vector, params, damping):
    """Hessian-vector product closure by the double-backward trick."""
    def hvp(v):
        hv = torch.autograd.grad(grad_vector @ v, params, retain_graph=True)
        return torch.cat([h.reshape(-1) for h in hv]) + damping * v
    return hvp


def conjugate_gradient(hvp, b, max_iter, rtol):
    """Solve H x = b until the residual has dropped by the factor rtol."""
    x = torch.zeros_like(b)
    r = b.clone()
    p = b.clone()
    rs = r @ r
    target = rtol ** 2 * rs.item()
    used = 0
    while used < max_iter:
        hp = hvp(p)
        alpha = rs / (p @ hp)
        x = x + alpha * p
        r = r - alpha * hp
        rs_next = r @ r
        used += 1
        if rs_next.item() < target:
            break
        p = r + (rs_next / rs) * p
        rs = rs_next
    return x, used


@torch.no_grad()
def apply_update(params, direction, step_size):
    offset = 0
    for p in params:
        n = p.numel()
        p.sub_(step_size * direction[offset:offset + n].view_as(p))
        offset += n


def validate(net, volts, ref):
    with torch.no_grad():
        err = (net(volts) - ref).abs()
        return err.mean().item(), err.max().item()


def calibrate(cfg: NewtonConfig):
    device = torch_xla.device()
    torch.manual_seed(0)
    bench = ArrayBench()
    net = CalibrationNet().to(device)
    params = list(net.parameters())
    print(f"{parameters_to_vector(params).numel()} parameters")
    held_out = [t.to(device) for t in bench.draw(128)]
    torch_xla.sync()

    total_cg = 0
    for outer in range(cfg.outer_steps):
        volts, ref = (t.to(device) for t in bench.draw(cfg.batch))
        loss = objective(net, volts, ref)
        g = flat_grad(loss, params, create_graph=True)
        hvp = make_hvp(g, params, cfg.damping)
        direction, used = conjugate_gradient(hvp, g.detach(), cfg.cg_max_iter, cfg.cg_rtol)
        apply_update(params, direction, cfg.step_size)
        torch_xla.sync()
        total_cg += used
        if (outer + 1) % cfg.report_every == 0:
            mean, worst = validate(net, *held_out)
            print(f"outer {outer + 1:3d}  loss {loss.item():.5f}  cg {used:2d}  "
                  f"held-out mean {mean:.4f} worst {worst:.4f}")
    print(f"{total_cg} CG iterations in all")


if __name__ == "__main__":
    calibrate(NewtonConfig())
