# kind: torch  mode: text  env: XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(11)
dev = torch_xla.device()


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        h = x.float() #A
        h = x #B
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


class Mixer(nn.Module):
    def __init__(self, t=8, d=32):
        super().__init__()
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.tok, self.ch1, self.ch2 = nn.Linear(t, t), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch2(F.silu(self.ch1(self.n2(x))))


net = nn.Sequential(nn.Linear(12, 32), Mixer(), Mixer(), RMSNorm(32), nn.Linear(32, 4)).to(dev).bfloat16()
x = torch.randn(6, 8, 12).to(dev).bfloat16()
t = torch.randn(6, 8, 4).to(dev)
torch_xla.sync()
loss = F.l1_loss(net(x).float(), t)
loss.backward()
with torch.no_grad():
    for p in net.parameters():
        p -= 0.01 * p.grad
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo([loss] + list(net.parameters())))
