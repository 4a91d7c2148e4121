import os, numpy as np, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
flag = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()


class Mixer(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.t1, self.t2, self.c1, self.c2 = nn.Linear(n, 2 * n), nn.Linear(2 * n, n), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.t2(F.gelu(self.t1(self.n1(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


net = nn.Sequential(nn.Conv2d(3, 40, 4, 4), nn.Flatten(2), Mixer(40, 64), Mixer(40, 64), nn.LayerNorm(64), nn.Flatten(), nn.Linear(2560, 24)).to(dev)
u, w = torch.randn(6, 3, 32, 32).to(dev), torch.randn(6, 3, 32, 32).to(dev)
named = list(net.named_parameters())
st = {k: (torch.zeros_like(p), torch.zeros_like(p)) for k, p in named}
torch_xla.sync()
zu = F.normalize(net(u), dim=-1)
zw = F.normalize(net(w), dim=-1)
inv = (zw * zu if flag else zu * zw).sum(-1).mean()
cor = (zu.t() @ zw - torch.eye(24, device=dev)).pow(2).sum()
loss = (1.0 - inv) + 0.02 * cor
loss.backward()
order = named[::-1] if flag else named
with torch.no_grad():
    for k, p in order:
        m, v = st[k]
        if flag:
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            m.mul_(0.9).add_(p.grad, alpha=0.1)
        else:
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
        if k.endswith("weight"):
            p.mul_(1 - 1e-3 * 0.05)
        p.addcdiv_(m, v.sqrt() + 1e-8, value=-1e-3)
outs = [loss] + [p for _, p in named] + [t for k, _ in named for t in st[k]]
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
torch_xla.sync()
np.savez(os.environ["VALS"], *[o.detach().cpu().numpy() for o in outs])
