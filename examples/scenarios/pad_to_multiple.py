"""Batches are padded to a multiple of 8, with a mask: three sizes take turns.

Kind: input-shape
"""

import torch
from _tiny import build, update

model, optimizer = build()
for length in (6, 14, 21, 5, 13, 22, 7, 15):
    padded = -(-length // 8) * 8
    mask = (torch.arange(padded) < length).float().to("xla")  # cause
    x = torch.ones(padded, 16).to("xla")  # cause
    out = model(x).pow(2).mean(1)
    update((out * mask).sum() / mask.sum(), optimizer)
