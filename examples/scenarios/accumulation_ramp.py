"""One batch more is accumulated after every third step, up to four.

Kind: accumulation-count
"""

import torch
import torch_xla
from _tiny import build

model, optimizer = build()
for step in range(12):
    for _ in range(1 + step // 3):
        x = torch.ones(8, 16).to("xla")  # cause
        loss = model(x).pow(2).mean()  # cause
        loss.backward()  # cause
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
