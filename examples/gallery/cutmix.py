"""timm's Mixup: the box of CutMix is a pair of Python slices.

Kind: python-index
Needs: timm
Page: cutmix
"""

import numpy as np
import torch
import torch_xla
from _mended import MENDED
from timm.data import Mixup
from torch import nn

torch.manual_seed(0)
np.random.seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 10))
model.to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
mixup = Mixup(mixup_alpha=0.0, cutmix_alpha=1.0, num_classes=10)
where = "cpu" if MENDED else "xla"
for _ in range(8):
    images, labels = torch.randn(4, 3, 16, 16).to(where), torch.tensor([0, 1, 2, 3]).to(where)
    images, targets = mixup(images, labels)
    loss = nn.functional.cross_entropy(model(images.to("xla")), targets.to("xla"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
