import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
flag = os.environ["VARIANT"] == "1"
torch.manual_seed(0)
dev = torch_xla.device()


class Cell(nn.Module):
    def __init__(self, i, h):
        super().__init__()
        self.x, self.h = nn.Linear(i, 3 * h), nn.Linear(h, 3 * h)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, -1)
        hr, hz, hn = self.h(h).chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


emb, cell, head = nn.Embedding(96, 32).to(dev), Cell(32, 48).to(dev), nn.Linear(48, 96).to(dev)
params = [*emb.parameters(), *cell.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=0.5)
text = torch.randint(0, 96, (5, 9)).to(dev)
torch_xla.sync()
h = torch.zeros(5, 48, device=dev)
total = 0.0
T = 4
for seg in range(2):
    if not flag:
        h = h.detach()
    part = text[:, seg * T: seg * T + T + 1]
    loss = 0.0
    for t in range(T):
        h = cell(emb(part[:, t]), h)
        loss = loss + F.cross_entropy(head(h), part[:, t + 1])
    (loss / T).backward(retain_graph=True)
    total = total + loss.detach()
opt.step()
outs = [total, h] + params
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
