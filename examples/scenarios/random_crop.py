"""A random crop at an offset that Python draws: one graph for each offset.

Kind: python-index
"""

import random

import torch
from _tiny import build, update

random.seed(3)
model, optimizer = build()
images = torch.ones(8, 24).to("xla")
for _ in range(7):
    start = random.randrange(8)
    crop = images[:, start : start + 16]  # cause
    update(model(crop).pow(2).mean(), optimizer)
