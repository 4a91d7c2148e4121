"""Every fourth step has no barrier: AdamW, other data in each step.

Kind: missing-barrier
"""

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(15):
    x, y = torch.randn(8, 16).to("xla"), torch.zeros(8, dtype=torch.long).to("xla")  # cause
    loss = nn.functional.cross_entropy(model(x), y)  # cause
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 != 3:
        torch_xla.sync()
