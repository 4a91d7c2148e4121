import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ReverseGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.strength, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 20), nn.ReLU())
        self.label = nn.Linear(20, 3)
        self.domain = nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 2))

    def forward(self, x, strength):
        f = self.features(x)
        return self.label(f), self.domain(ReverseGrad.apply(f, strength))


def strength_at(step, total):
    return 2.0 / (1.0 + math.exp(-10 * (step + 1) / total)) - 1.0


torch.manual_seed(0)
dev = torch_xla.device()
model = DANN().to(dev)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
domains = torch.cat([torch.zeros(8), torch.ones(8)]).long().to(dev)
TOTAL = 12
for step in range(TOTAL):
    source, target = torch.randn(8, 6), torch.randn(8, 6) + 0.5
    y = torch.randint(0, 3, (8,)).to(dev)
    cls, dom = model(torch.cat([source, target]).to(dev), strength_at(step, TOTAL))
    loss = F.cross_entropy(cls[:8], y) + F.cross_entropy(dom, domains)
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    print(step, round(strength_at(step, TOTAL), 4), round(loss.item(), 4))
