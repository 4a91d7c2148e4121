"""transformers' linear schedule: the rate is exactly 0 in the first step and at the end.

Kind: special-scalar
Needs: transformers
Page: warmup-from-zero
"""

import torch
import torch_xla
from _mended import MENDED
from torch import nn
from transformers import get_linear_schedule_with_warmup

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=3, num_training_steps=10)
for _ in range(12):
    if MENDED:  # not smaller: 1 - lr * weight_decay must not round to 1
        for group in optimizer.param_groups:
            group["lr"] = max(group["lr"], 1e-5)
    model(torch.ones(8, 16).to("xla")).pow(2).mean().backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    torch_xla.sync()
