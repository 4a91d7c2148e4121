import torch
import torch.nn as nn
import torch_xla


class Adapter(nn.Module):
    """Low-rank update beside a frozen linear layer."""

    def __init__(self, base, rank=2, scale=2.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = scale
        self.merged = False

    def forward(self, x):
        y = self.base(x)
        return y if self.merged else y + (x @ self.a.t() @ self.b.t()) * self.scale

    @torch.no_grad()
    def merge(self, sign=1):
        self.base.weight += sign * self.scale * (self.b @ self.a)
        self.merged = sign > 0


def evaluate(model, x, y):
    adapters = [m for m in model.modules() if isinstance(m, Adapter)]
    for a in adapters:
        a.merge()
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean()
    torch_xla.sync()
    for a in adapters:
        a.merge(-1)
    torch_xla.sync()
    return acc.item()


torch.manual_seed(0)
dev = torch_xla.device()
model = nn.Sequential(Adapter(nn.Linear(10, 20)), nn.ReLU(), Adapter(nn.Linear(20, 3))).to(dev)
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(12):
    x, y = torch.randn(8, 10).to(dev), torch.randint(0, 3, (8,)).to(dev)
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    if step % 4 == 3:
        print(step, loss.item(), evaluate(model, x, y))
