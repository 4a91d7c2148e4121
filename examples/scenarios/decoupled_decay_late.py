"""AdamW's weight decay is switched on in mid-training.

Kind: optimizer-option
Line: torch
"""

import torch
from _tiny import batch, update
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
for step in range(10):
    if step == 5:
        for group in optimizer.param_groups:
            group["weight_decay"] = 0.1
    update(model(batch()).pow(2).mean(), optimizer)
