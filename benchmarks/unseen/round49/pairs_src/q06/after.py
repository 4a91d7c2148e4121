"""Click-through model: factorization machine + cross network + small MLP, Adagrad."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CARD = [13, 7, 21, 5, 9]
DIM = 4
DENSE = 3


class CrossLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w = nn.Parameter(torch.randn(width) / width ** 0.5)
        self.b = nn.Parameter(torch.zeros(width))

    def forward(self, x0, x):
        gate = torch.matmul(x, self.w).unsqueeze(1)
        return torch.addcmul(self.b + x, x0, gate)


class CTR(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(c, DIM) for c in CARD])
        self.lin = nn.ModuleList([nn.Embedding(c, 1) for c in CARD])
        width = DIM * len(CARD) + DENSE
        self.cross = nn.ModuleList([CrossLayer(width) for _ in range(2)])
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.out = nn.Linear(width + 8, 1)
        for e in self.emb:
            nn.init.normal_(e.weight, std=0.05)

    def second_order(self, fields):
        # sum over i < j of <v_i, v_j>  ==  0.5 * (|sum v|^2 - sum |v|^2), linear in the fields
        v = torch.stack(fields, dim=1)
        return 0.5 * (v.sum(dim=1).square() - v.square().sum(dim=1)).sum(dim=1)

    def forward(self, cat, dense):
        fields = [e(cat[:, i]) for i, e in enumerate(self.emb)]
        first = torch.cat([e(cat[:, i]) for i, e in enumerate(self.lin)], dim=1).sum(dim=1)
        x0 = torch.cat(fields + [dense], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        deep = self.out(torch.cat([x, self.mlp(x0)], dim=1)).squeeze(1)
        return first + self.second_order(fields) + deep


def loss_fn(logit, y):
    return (F.softplus(logit) - y * logit).mean()


def main(path, dump_at=2):
    torch.manual_seed(41)
    dev = xm.xla_device()
    net = CTR().to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.05, initial_accumulator_value=0.1)
    g = torch.Generator().manual_seed(6)
    for step in range(dump_at + 1):
        cat = torch.stack([torch.randint(0, c, (20,), generator=g) for c in CARD], dim=1).to(dev)
        dense = torch.rand(20, DENSE, generator=g).to(dev)
        y = (torch.rand(20, generator=g) < 0.3).float().to(dev)
        loss = loss_fn(net(cat, dense), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step == dump_at:
            live = [loss]
            for p in net.parameters():
                live += [p, p.grad, opt.state[p]['sum']]
            with open(path, 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == '__main__':
    main(sys.argv[1])
