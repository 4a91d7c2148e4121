"""What the scenarios share: one small model, its optimizer, one training step."""

from __future__ import annotations

import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch import nn


def build(lr: float = 0.05, momentum: float = 0.0) -> tuple[nn.Sequential, torch.optim.SGD]:
    """A two-layer model on the XLA device and its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
    return model, torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)


def batch(rows: int = 8) -> torch.Tensor:
    """One batch on the device."""
    return torch.ones(rows, 16).to("xla")


def update(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Backward, optimizer step, end of the step."""
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
