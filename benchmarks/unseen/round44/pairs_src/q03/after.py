"""Battery state-of-health forecaster: an LSTM cell unrolled over charge cycles,
Gaussian head, NAdam."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEAT, HID, CYCLES, CELLS = 5, 12, 4, 8
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class GatedCell(nn.Module):
    def __init__(self, feat, hid):
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(4 * hid, feat) / feat ** 0.5)
        self.w_h = nn.Parameter(torch.randn(4 * hid, hid) / hid ** 0.5)
        self.bias = nn.Parameter(torch.zeros(4 * hid))

    def project(self, x):
        """Input half of the gates for all cycles at once: [B, T, 4 * hid]."""
        return F.linear(x, self.w_x, self.bias)

    def forward(self, x_gates, state):
        h, c = state
        i, f, g, o = (x_gates + F.linear(h, self.w_h)).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h, c


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = GatedCell(FEAT, HID)
        self.mean = nn.Linear(HID, 1)
        self.log_var = nn.Linear(HID, 1)

    def forward(self, cycles):
        h = cycles.new_zeros(cycles.size(0), HID)
        c = torch.zeros_like(h)
        hidden = []
        for x_gates in self.cell.project(cycles).unbind(1):
            h, c = self.cell(x_gates, (h, c))
            hidden.append(h)
        hidden = torch.stack(hidden, dim=1)
        return self.mean(hidden).squeeze(-1), self.log_var(hidden).squeeze(-1)


def nll(mean, log_var, soh):
    sq = (soh - mean).square() * torch.exp(-log_var)
    return (0.5 * (sq + log_var) + HALF_LOG_2PI).mean()


def train_step(model, opt, cycles, soh):
    opt.zero_grad()
    mean, log_var = model(cycles)
    loss = nll(mean, log_var, soh)
    loss.backward()
    opt.step()
    return loss.detach()


def main(out):
    dev = torch_xla.device()
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(29)
    model = Forecaster().to(dev)
    opt = torch.optim.NAdam(model.parameters(), lr=4e-3, momentum_decay=4e-3)
    torch_xla.sync()
    for step in range(6):
        cycles = torch.randn(CELLS, CYCLES, FEAT, generator=gen).to(dev)
        soh = torch.rand(CELLS, CYCLES, generator=gen).to(dev)
        loss = train_step(model, opt, cycles, soh)
        if step == 2:
            live = [loss]
            for p in model.parameters():
                st = opt.state[p]
                live += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        check = [p.double().sum().item() for p in model.parameters()]
        print(step, f"{loss.item():.7f}", " ".join(f"{v:.6f}" for v in check))


if __name__ == "__main__":
    main(sys.argv[1])
