"""Three widths in turn, a read of each batch's mask, and a log that is reset at the step's line."""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(16, 16) for _ in range(10)]
model = nn.Sequential(nn.Embedding(20, 16), *layers, nn.Linear(16, 4)).to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
total = torch.zeros((), device="xla")


def batches(widths):
    for width in widths:
        yield torch.randint(1, 20, (4, width)).to("xla")
        torch_xla.sync()


for step, ids in enumerate(batches([24, 8, 16, 24, 16, 16, 8, 24, 16, 24, 8, 16] * 3)):
    if ids.sum().item() < 4:
        continue
    loss = model(ids).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss.detach()
    if step % 8 == 7:
        torch_xla.sync()
        print(f"{total.item() / 8:.3f}")
        total -= total
