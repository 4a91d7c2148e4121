"""One loop body serves training and evaluation, so that their syncs stand at one line.

Kind: none
"""

import torch
import torch_xla
from _tiny import batch, build

model, optimizer = build(momentum=0.9)
for _ in range(3):
    for phase in ("train", "val"):
        for _ in range(5 if phase == "train" else 2):
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = model(batch()).pow(2).mean()
            if phase == "train":
                loss.backward()
                optimizer.step()
            torch_xla.sync()
