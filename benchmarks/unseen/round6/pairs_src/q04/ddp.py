# kind: torch  mode: text  env: XLA_ALWAYS_ALLREDUCE=1
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

torch.manual_seed(3)
dev = torch_xla.device()
# 8 replicas: 2 pipelines x 4, gradients are averaged inside of one data parallel group
groups = [[0, 1, 2, 3], [4, 5, 6, 7]] #A
groups = [[0, 2, 4, 6], [1, 3, 5, 7]] #B
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1),
                    nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).to(dev)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
img, lab = torch.randn(8, 3, 12, 12).to(dev), torch.randint(0, 10, (8,)).to(dev)
torch_xla.sync()
loss = F.cross_entropy(net(img), lab)
loss.backward()
xm.all_reduce(xm.REDUCE_SUM, [p.grad for p in net.parameters()], scale=1.0 / 4, groups=groups)
metric = xm.all_reduce(xm.REDUCE_SUM, loss.detach(), scale=1.0 / 8)
opt.step()
live = [metric] + list(net.parameters()) + list(net.buffers())
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
