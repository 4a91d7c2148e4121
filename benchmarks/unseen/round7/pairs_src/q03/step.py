import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
V = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(300, 48)
        self.convs = nn.ModuleList(nn.Conv1d(48, 48, 3, padding=2 ** i, dilation=2 ** i) for i in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(48) for _ in range(3))
        self.out = nn.Linear(48, 17)

    def forward(self, ids):
        x = self.emb(ids)
        for c, n in zip(self.convs, self.norms):
            x = x + F.gelu(c(n(x).transpose(1, 2)).transpose(1, 2))
        return self.out(x)


def rescale(params, limit):
    total = torch.stack([p.grad.pow(2).sum() for p in params]).sum().sqrt()
    coef = (limit / (total + 1e-6)).clamp(max=1.0)
    for p in params:
        p.grad.mul_(coef)
    return total


def update(params, state, lr=2e-3, b1=0.9, b2=0.98):
    for p, (m, v) in zip(params, state):
        m.mul_(b1).add_(p.grad, alpha=1 - b1)
        v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
        p.data.addcdiv_(m, v.sqrt().add_(1e-8), value=-lr)


net = Tagger().to(dev)
params = list(net.parameters())
state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in params]
ids, tags = torch.randint(0, 300, (6, 40)).to(dev), torch.randint(0, 17, (6, 40)).to(dev)
torch_xla.sync()
loss = F.cross_entropy(net(ids).flatten(0, 1), tags.flatten())
loss.backward()
with torch.no_grad():
    if V:
        update(params, state)
        gn = rescale(params, 1.0)
    else:
        gn = rescale(params, 1.0)
        update(params, state)
outs = [loss, gn] + params + [t for s in state for t in s]
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
