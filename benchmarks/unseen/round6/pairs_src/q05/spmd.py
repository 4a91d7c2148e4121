# kind: torch  mode: text  env: CPU_NUM_DEVICES=4,XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import os
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.runtime as xr
import torch_xla.distributed.spmd as xs

xr.use_spmd()
torch.manual_seed(4)
dev = torch_xla.device()
mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))


class MLP(nn.Module):
    def __init__(self, d=64, f=128):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(d, f, False), nn.Linear(d, f, False), nn.Linear(f, d, False)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


net = nn.Sequential(MLP(), MLP(), nn.Linear(64, 64)).to(dev)
for m in net[:2]:
    xs.mark_sharding(m.gate.weight, mesh, ("model", None))
    xs.mark_sharding(m.up.weight, mesh, ("model", None))
    xs.mark_sharding(m.down.weight, mesh, (None, "model")) #A
    xs.mark_sharding(m.down.weight, mesh, ("model", None)) #B
x = torch.randn(16, 64).to(dev)
t = torch.randn(16, 64).to(dev)
xs.mark_sharding(x, mesh, ("data", None))
xs.mark_sharding(t, mesh, ("data", None))
torch_xla.sync()
loss = F.mse_loss(net(x), t)
loss.backward()
with torch.no_grad():
    for p in net.parameters():
        p.sub_(p.grad, alpha=0.1)
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo([loss] + list(net.parameters())))
