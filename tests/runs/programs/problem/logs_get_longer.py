"""A log over the steps so far, a little longer each time: small graphs to the end of the run."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(16, 16) for _ in range(10)]
model = nn.Sequential(nn.Embedding(20, 16), *layers, nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
totals = torch.zeros(36, device="xla")


def batches(widths):
    for width in widths:
        yield torch.randint(1, 20, (4, width)).to("xla")
        torch_xla.sync()


for step, ids in enumerate(batches([16] * 36)):
    loss = model(ids).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        torch_xla.sync()
        print(f"{totals[: step + 1].sum().item():.3f}")
