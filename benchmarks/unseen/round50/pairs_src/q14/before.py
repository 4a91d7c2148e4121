"""Survival analysis: gated residual net with a Cox partial likelihood."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(dim, dim)

    def forward(self, x):
        a, b = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(a * torch.sigmoid(b))


class SurvNet(nn.Module):
    def __init__(self, n_num=7, cards=(5, 3), dim=12, depth=2):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(c, 4) for c in cards])
        self.inp = nn.Linear(n_num + 4 * len(cards), dim)
        self.blocks = nn.ModuleList([GatedBlock(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.risk = nn.Linear(dim, 1, bias=False)

    def forward(self, num, cat):
        e = [m(cat[:, i]) for i, m in enumerate(self.emb)]
        x = F.gelu(self.inp(torch.cat([num] + e, dim=1)))
        for b in self.blocks:
            x = b(x)
        return self.risk(self.norm(x)).squeeze(-1)


def cox_loss(risk, time, event):
    order = torch.argsort(time, descending=True)
    r = risk[order]
    ev = event[order]
    top = r.max().detach()
    log_set = torch.log(torch.cumsum(torch.exp(r - top), 0)) + top
    ll = (r - log_set) * ev
    return -ll.sum() / ev.sum().clamp(min=1.0)


def main(path):
    torch.manual_seed(11)
    dev = xm.xla_device()
    model = SurvNet().to(dev)
    params = list(model.parameters())
    opt = torch.optim.Adam(params, lr=1e-3, weight_decay=1e-4)
    g = torch.Generator().manual_seed(2)
    for step in range(4):
        num = torch.randn(16, 7, generator=g).to(dev)
        cat = torch.stack([torch.randint(0, 5, (16,), generator=g),
                           torch.randint(0, 3, (16,), generator=g)], 1).to(dev)
        time = torch.rand(16, generator=g).to(dev)
        event = (torch.rand(16, generator=g) > 0.4).float().to(dev)
        xm.mark_step()
        risk = model(num, cat)
        loss = cox_loss(risk, time, event)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 2:
            live = list(params)
            for p in params:
                live += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            live.append(loss.detach())
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
