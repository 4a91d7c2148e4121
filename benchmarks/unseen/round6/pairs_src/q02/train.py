# kind: torch  mode: dump  pattern: SyncTensors
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(1)
dev = torch_xla.device()
net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.LayerNorm(48), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3)).to(dev)
ema = [p.detach().clone() for p in net.parameters()]
momentum = {} #A
momentum = {k: torch.zeros_like(p) for k, p in enumerate(net.parameters())} #B
x, y = torch.randn(16, 20).to(dev), torch.randn(16, 3).to(dev)
torch_xla.sync()


def train_step(i):
    for p in net.parameters():
        p.grad = None
    loss = F.smooth_l1_loss(net(x), y)
    loss.backward()
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            if k not in momentum:
                momentum[k] = torch.zeros_like(p)
            momentum[k].mul_(0.9).add_(p.grad)
            p.sub_(momentum[k] * 0.01)
            ema[k].lerp_(p, 0.001)
    return loss.detach()


for i in range(1):
    loss = train_step(i)
    torch_xla.sync()
