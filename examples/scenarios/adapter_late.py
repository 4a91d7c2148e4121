"""LoRA: a layer is frozen and an adapter is put beside it.

Kind: added-input
"""

import torch
from _tiny import batch, update
from torch import nn


class Adapted(nn.Module):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 4, bias=False)
        self.up = nn.Linear(4, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))  # cause


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    if step == 5:
        model[0] = Adapted(model[0]).to("xla")
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=0.05)
    update(model(batch()).pow(2).mean(), optimizer)
