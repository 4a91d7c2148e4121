"""Voltage estimation on a distribution grid: residual graph convolutions over lines, trained on metered buses."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_BUS, N_LINE, F_IN, HID = 14, 20, 5, 10


def make_grid(g):
    src = torch.randint(0, N_BUS, (N_LINE,), generator=g)
    dst = (src + 1 + torch.randint(0, N_BUS - 1, (N_LINE,), generator=g)) % N_BUS
    both = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])
    adm = torch.rand(N_LINE, generator=g) + 0.2
    return both, torch.cat([adm, adm])


def edge_norm(index, adm):
    src, dst = index
    deg = torch.zeros(N_BUS, device=adm.device).index_add(0, dst, adm)
    return adm / deg.clamp(min=1e-6)[dst]


class LineConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.msg = nn.Linear(cin, cout, bias=False)
        self.root = nn.Linear(cin, cout)
        self.norm = nn.LayerNorm(cout)

    def forward(self, x, index, w):
        src, dst = index
        m = self.msg(x)[src] * w.unsqueeze(-1)
        agg = torch.zeros(x.shape[0], m.shape[1], device=x.device).index_add(0, dst, m)
        return self.norm(agg + self.root(x))


class GridNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = LineConv(F_IN, HID)
        self.c2 = LineConv(HID, HID)
        self.head = nn.Linear(HID, 2)

    def forward(self, x, index, adm):
        w = edge_norm(index, adm)
        h = F.gelu(self.c1(x, index, w))
        h = h + F.gelu(self.c2(h, index, w))
        return self.head(h)


def voltage_loss(pred, target, metered):
    mag = F.smooth_l1_loss(pred[:, 0], target[:, 0], reduction="none", beta=0.05)
    ang = 1.0 - torch.cos(pred[:, 1] - target[:, 1])
    per_bus = mag + 0.5 * ang
    return (per_bus * metered).sum() / metered.sum()


def build_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)


def main(out):
    torch.manual_seed(7)
    dev = torch_xla.device()
    model = GridNet().to(dev)
    opt = build_optimizer(model)
    g = torch.Generator().manual_seed(1)
    index, adm = make_grid(g)
    index, adm = index.to(dev), adm.to(dev)
    for step in range(3):
        x = torch.randn(N_BUS, F_IN, generator=g).to(dev)
        y = (torch.randn(N_BUS, 2, generator=g) * 0.1).to(dev)
        metered = (torch.rand(N_BUS, generator=g) > 0.3).float().to(dev)
        opt.zero_grad()
        loss = voltage_loss(model(x, index, adm), y, metered)
        loss.backward()
        gnorm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        opt.step()
        opt.zero_grad()
        if step == 2:
            live = [loss, gnorm]
            for p in model.parameters():
                live += [p, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), gnorm.item())


main(sys.argv[1])
