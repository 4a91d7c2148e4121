"""Causal TCN with quantile heads: heat demand of a district-heating network.

usage: python after.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, HOURS, FEATS, CH = 3, 24, 5, 6
QUANTILES = (0.1, 0.5, 0.9)
DUMP_STEP = 3


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.cut = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, padding=self.cut, dilation=dilation, bias=False)

    def forward(self, x):
        y = self.conv(x)
        return y[:, :, self.cut:]


class TCNBlock(nn.Module):
    """Gated residual block (WaveNet style)."""

    def __init__(self, ch, dilation):
        super().__init__()
        self.gate = CausalConv(ch, 2 * ch, 2, dilation)
        self.out = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        a, b = self.gate(x).chunk(2, dim=1)
        h = torch.tanh(a) * torch.sigmoid(b)
        return x + self.out(h), h


class HeatTCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv1d(FEATS, CH, 1)
        self.blocks = nn.ModuleList([TCNBlock(CH, d) for d in (1, 2, 4)])
        self.head = nn.Conv1d(CH, len(QUANTILES), 1)

    def forward(self, x):
        h = self.inp(x)
        skip = 0.0
        for block in self.blocks:
            h, s = block(h)
            skip = skip + s
        raw = self.head(F.leaky_relu(skip + h, 0.1))
        # quantiles must not cross: first is free, the rest are increments
        low = raw[:, :1]
        inc = F.softplus(raw[:, 1:])
        return torch.cat([low, low + torch.cumsum(inc, dim=1)], dim=1)


def pinball(pred, target, observed):
    q = torch.tensor(QUANTILES, device=pred.device).view(1, -1, 1)
    err = target.unsqueeze(1) - pred
    loss = torch.maximum(q * err, (q - 1.0) * err).sum(1)
    return (loss * observed).sum() / observed.sum().clamp(min=1.0)


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.88, 0.995), weight_decay=0.021)


def live(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        st = opt.state[p]
        out += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
    return out


def main(path):
    device = torch_xla.device()
    torch.manual_seed(23)
    model = HeatTCN().to(device)
    opt = make_optimizer(model)
    gen = torch.Generator().manual_seed(8)
    torch_xla.sync()
    for step in range(5):
        x = torch.randn(BATCH, FEATS, HOURS, generator=gen).to(device)
        y = (torch.rand(BATCH, HOURS, generator=gen) * 3).to(device)
        observed = (torch.rand(BATCH, HOURS, generator=gen) > 0.15).float().to(device)
        opt.zero_grad()
        pred = model(x)
        loss = pinball(pred, y, observed)
        width = (pred[:, -1] - pred[:, 0]).detach().mean()
        loss.backward()
        opt.step()
        if step == DUMP_STEP:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss, width])))
        torch_xla.sync()
        print(step, loss.item(), width.item())


if __name__ == "__main__":
    main(sys.argv[1])
