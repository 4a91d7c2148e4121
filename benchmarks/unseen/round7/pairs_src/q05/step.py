import os, numpy as np, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
variant = int(os.environ["VARIANT"])
torch.manual_seed(0)
dev = torch_xla.device()
SIZES = [500, 120, 40, 1000]
K = 16


class Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, K) for n in SIZES)
        self.bot = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, K), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(K + 10, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, cats):
        d = self.bot(dense)
        vs = [d] + [t(cats[i]) for i, t in enumerate(self.tables)]
        z = torch.stack(vs, 1)
        zz = z @ z.transpose(1, 2)
        inter = torch.cat([zz[:, i, j:j + 1] for i in range(5) for j in range(i)], 1)
        return self.top(torch.cat([d, inter], 1)).squeeze(1)


rng = np.random.default_rng(0)
cols = [rng.integers(0, n, 64) for n in SIZES]
if variant:
    cols[2] = cols[2].astype(np.int32)
net = Rec().to(dev)
accs = [torch.full_like(p, 0.1) for p in net.parameters()]
dense = torch.from_numpy(rng.standard_normal((64, 13)).astype(np.float32)).to(dev)
cats = [torch.from_numpy(c).to(dev) for c in cols]
click = torch.from_numpy(rng.integers(0, 2, 64).astype(np.float32)).to(dev)
torch_xla.sync()
loss = F.binary_cross_entropy_with_logits(net(dense, cats), click)
loss.backward()
with torch.no_grad():
    for p, a in zip(net.parameters(), accs):
        a.add_(p.grad * p.grad)
        p.sub_(0.05 * p.grad / (a.sqrt() + 1e-7))
outs = [loss] + list(net.parameters()) + accs
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
