import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
flag = os.environ["VARIANT"] == "1"


class Res(nn.Module):
    def __init__(self, ci, co, s):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(ci, co, 3, s, 1, bias=False), nn.BatchNorm2d(co)
        self.c2, self.b2 = nn.Conv2d(co, co, 3, 1, 1, bias=False), nn.BatchNorm2d(co)
        self.sk = nn.Sequential(nn.Conv2d(ci, co, 1, s, bias=False), nn.BatchNorm2d(co)) if s > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.sk(x))


torch.manual_seed(0)
dev = torch_xla.device()
stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
net = nn.Sequential(stem, Res(16, 16, 1), Res(16, 32, 2), Res(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
x, y = torch.randn(8, 3, 32, 32).to(dev), torch.randint(0, 10, (8,)).to(dev)
torch_xla.sync()
net.train()
if flag:
    net[2].requires_grad_(False)
loss = F.cross_entropy(net(x), y)
loss.backward()
opt.step()
outs = [loss] + list(net.parameters()) + [b for b in net.buffers()] + [s["momentum_buffer"] for s in opt.state.values()]
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
