"""Dense training, masks made once from what was learned, sparse training by the same function."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 4)).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
masks = {}


def apply_masks():
    with torch.no_grad():
        for name, mask in masks.items():
            model.get_parameter(name).mul_(mask)


def train(epochs):
    for _ in range(epochs):
        for _ in range(5):
            x, y = torch.randn(8, 16).to("xla"), torch.randint(0, 4, (8,)).to("xla")
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            apply_masks()
            torch_xla.sync()
        validate()


@torch.no_grad()
def validate():
    for _ in range(2):
        model(torch.randn(12, 16).to("xla")).pow(2).mean().item()


train(2)
for name, p in model.named_parameters():
    if p.dim() > 1:
        size = p.detach().cpu().abs()
        masks[name] = (size > size.median()).float().to("xla")
apply_masks()
torch_xla.sync()
train(2)
