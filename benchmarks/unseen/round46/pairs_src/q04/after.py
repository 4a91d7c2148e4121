"""Probabilistic river-discharge forecaster: hand-written LSTM, split-normal likelihood, Adagrad."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FEATS, HID, T = 6, 10, 5


class Cell(nn.Module):
    def __init__(self, n_in, hid):
        super().__init__()
        self.wx = nn.Parameter(torch.randn(n_in, 4 * hid) * 0.2)
        self.wh = nn.Parameter(torch.randn(hid, 4 * hid) * 0.2)
        self.b = nn.Parameter(torch.zeros(4 * hid))

    def project(self, xs):
        """Input part of the gates for the whole sequence, [N, T, F] -> [N, T, 4H]."""
        return torch.matmul(xs, self.wx) + self.b

    def forward(self, px, h, c):
        gates = torch.addmm(px, h, self.wh)
        hid = h.shape[-1]
        i, f, g, o = gates.split(hid, dim=-1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(FEATS + 1, HID)
        self.static = nn.Linear(3, HID)
        self.head = nn.Linear(HID, 3)

    def forward(self, flow, forcing, basin):
        h = torch.tanh(self.static(basin))
        c = torch.zeros_like(h)
        gates = self.cell.project(torch.cat([flow.unsqueeze(-1), forcing], dim=-1))
        hs = []
        for px in gates.unbind(dim=1):
            h, c = self.cell(px, h, c)
            hs.append(h)
        out = self.head(torch.stack(hs, dim=1))
        below, above = (F.softplus(out[..., 1:]) + 1e-3).unbind(dim=-1)
        return out[..., 0], below, above


def split_normal_nll(y, loc, below, above):
    err = y - loc
    z = torch.where(err < 0, err / below, err / above)
    return 0.5 * z.square() + torch.log(below + above) + 0.5 * math.log(math.pi / 2)


def masked_mean(v, valid):
    return v.masked_fill(~valid, 0.0).sum() / valid.sum().clamp(min=1)


def make_batch(gen, n=7):
    flow = torch.randn(n, T + 1, generator=gen)
    forcing = torch.randn(n, T, FEATS, generator=gen)
    basin = torch.randn(n, 3, generator=gen)
    valid = torch.rand(n, T, generator=gen) > 0.2
    return flow, forcing, basin, valid


def main(out, steps=4):
    device = xm.xla_device()
    torch.manual_seed(8)
    net = Forecaster().to(device)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.05, foreach=False)
    gen = torch.Generator().manual_seed(77)
    for step in range(steps):
        flow, forcing, basin, valid = [t.to(device) for t in make_batch(gen)]
        opt.zero_grad()
        loc, below, above = net(flow[:, :-1], forcing, basin)
        nll = split_normal_nll(flow[:, 1:], loc, below, above)
        loss = masked_mean(nll, valid)
        loss.backward()
        opt.step()
        if step == steps - 1:
            live = list(net.parameters())
            live += [opt.state[p]["sum"] for p in net.parameters()]
            live.append(loss)
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, "%.7f" % loss.item())
    print("checksum", sum(p.detach().cpu().double().abs().sum().item() for p in net.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
