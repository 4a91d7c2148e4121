import os, numpy as np, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
import torch_xla.runtime as xr
import torch_xla.distributed.spmd as xs
flag = os.environ["VARIANT"] == "1"
xr.use_spmd()
torch.manual_seed(0)
dev = torch_xla.device()
mesh = xs.Mesh(np.arange(8), (2, 4), ("data", "model"))


class MLP(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, f), nn.Linear(f, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Att(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.norm, self.qkv, self.o = h, nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2) * (d // self.h) ** -0.5).softmax(-1)
        return x + self.o((w @ v).transpose(1, 2).reshape(b, t, d))


net = nn.Sequential(Att(64, 4), MLP(64, 256), Att(64, 4), MLP(64, 256), nn.Linear(64, 8)).to(dev)
for i, blk in enumerate(net[:4]):
    if isinstance(blk, MLP):
        xs.mark_sharding(blk.up.weight, mesh, ("model", None))
        spec = ("model", None) if flag and i == 3 else (None, "model")
        xs.mark_sharding(blk.down.weight, mesh, spec)
    else:
        xs.mark_sharding(blk.qkv.weight, mesh, ("model", None))
x, y = torch.randn(8, 12, 64).to(dev), torch.randn(8, 12, 8).to(dev)
xs.mark_sharding(x, mesh, ("data", None, None))
xs.mark_sharding(y, mesh, ("data", None, None))
torch_xla.sync()
loss = F.huber_loss(net(x), y)
loss.backward()
with torch.no_grad():
    for p in net.parameters():
        p.sub_(0.01 * p.grad)
outs = [loss] + list(net.parameters())
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
