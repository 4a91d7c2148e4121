"""Denoising of conformers of small molecules: a slim E(n)-equivariant network predicts the clean
coordinates; trained with self-conditioning (Chen et al., "Analog Bits")."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HERE = os.path.dirname(os.path.abspath(__file__))
ATOMS, KINDS, WIDTH, BATCH = 7, 5, 12, 3


class EGCL(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.edge = nn.Linear(2 * width + 2, width)
        self.coord = nn.Linear(width, 1, bias=False)
        self.node = nn.Linear(2 * width, width)

    def forward(self, h, x, cond, pair):
        n = h.shape[1]
        diff = x.unsqueeze(2) - x.unsqueeze(1)
        d2 = diff.square().sum(-1, keepdim=True)
        c2 = (cond.unsqueeze(2) - cond.unsqueeze(1)).square().sum(-1, keepdim=True)
        hi = h.unsqueeze(2).expand(-1, -1, n, -1)
        hj = h.unsqueeze(1).expand(-1, n, -1, -1)
        m = F.silu(self.edge(torch.cat([hi, hj, d2, c2], dim=-1))) * pair
        x = x + (diff / (d2 + 1.0) * self.coord(m) * pair).sum(2)
        h = h + F.silu(self.node(torch.cat([h, m.sum(2)], dim=-1)))
        return h, x


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind = nn.Embedding(KINDS, WIDTH)
        self.time = nn.Linear(1, WIDTH)
        self.layers = nn.ModuleList([EGCL(WIDTH), EGCL(WIDTH)])

    def forward(self, kinds, noisy, sigma, cond, mask):
        t = torch.log(sigma).unsqueeze(-1)
        h = (self.kind(kinds) + self.time(t).unsqueeze(1)) * mask.unsqueeze(-1)
        pair = (mask.unsqueeze(2) * mask.unsqueeze(1)).unsqueeze(-1)
        x = noisy / torch.sqrt(1.0 + sigma.square())[:, None, None]
        for layer in self.layers:
            h, x = layer(h, x, cond, pair)
        return x


def center(x, mask):
    m = mask.unsqueeze(-1)
    return (x - (x * m).sum(1, keepdim=True) / m.sum(1, keepdim=True)) * m


def loss_fn(net, kinds, clean, noise, sigma, mask, use_cond):
    noisy = center(clean + sigma[:, None, None] * noise, mask)
    empty = torch.zeros_like(noisy)
    with torch.no_grad():
        guess = net(kinds, noisy, sigma, empty, mask)
    cond = torch.where(use_cond[:, None, None], guess, empty)
    pred = net(kinds, noisy, sigma, cond, mask)
    weight = (sigma.square() + 1.0) / sigma.square()
    err = (pred - clean).square().sum(-1)
    return (weight * (err * mask).sum(1) / mask.sum(1)).mean()


def pending(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        out += [p.data] + ([p.grad] if p.grad is not None else [])
    for p in net.parameters():
        out += [v for k, v in sorted(opt.state[p].items())
                if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main(target):
    torch.manual_seed(5)
    dev = torch_xla.device()
    net = Denoiser().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(2)
    xm.mark_step()
    for step in range(3):
        kinds = torch.randint(0, KINDS, (BATCH, ATOMS), generator=gen).to(dev)
        mask = torch.ones(BATCH, ATOMS)
        mask[0, 5:] = 0
        mask = mask.to(dev)
        clean = torch.randn(BATCH, ATOMS, 3, generator=gen).to(dev)
        noise = torch.randn(BATCH, ATOMS, 3, generator=gen).to(dev)
        sigma = torch.exp(torch.randn(BATCH, generator=gen) - 0.5).to(dev)
        use_cond = (torch.rand(BATCH, generator=gen) < 0.5).to(dev)
        opt.zero_grad()
        loss = loss_fn(net, kinds, clean, noise, sigma, mask, use_cond)
        loss.backward()
        opt.step()
        if step == 2:
            with open(os.path.join(HERE, target), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(net, opt, [loss])))
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main("a.hlo")
