import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
torch.manual_seed(0)
dev = torch_xla.device()
steps = 3 + int(os.environ["VARIANT"])
WARM = 4


class Seq2Seq(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.src, self.tgt = nn.Embedding(80, d), nn.Embedding(90, d)
        self.enc, self.dec = nn.ModuleList(nn.Linear(d, d) for _ in range(2)), nn.ModuleList(nn.Linear(2 * d, d) for _ in range(2))
        self.out = nn.Linear(d, 90)

    def forward(self, s, t):
        h = self.src(s)
        for l in self.enc:
            h = h + torch.tanh(l(h))
        q = self.tgt(t)
        for l in self.dec:
            w = (q @ h.transpose(1, 2) / 40 ** 0.5).softmax(-1)
            q = q + F.relu(l(torch.cat([q, w @ h], -1)))
        return self.out(q)


net = Seq2Seq().to(dev)
params = list(net.parameters())
mom = [torch.zeros_like(p) for p in params]
s, t, y = (torch.randint(0, 80, (5, n)).to(dev) for n in (12, 9, 9))
torch_xla.sync()
for step in range(1, steps + 1):
    loss = F.nll_loss(F.log_softmax(net(s, t), -1).flatten(0, 1), y.flatten())
    loss.backward()
    ramp = min(1.0, step / WARM)
    with torch.no_grad():
        for p, m in zip(params, mom):
            m.mul_(0.95).add_(p.grad * ramp)
            p.sub_(m * 0.02)
            p.grad = None
    outs = [loss] + params + mom
    if step == steps:
        open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
    torch_xla.sync()
