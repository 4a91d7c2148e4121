"""Self-supervised pretraining on EEG windows: gated TCN encoder, VICReg, EMA copy (torch_xla)."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, CHANS, TIME, HID, PROJ = 6, 4, 16, 6, 8
LR, MOMENTUM, EMA = 0.02, 0.9, 0.95
DUMP_AT = 3
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


class GatedBlock(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(cin, 2 * cout, 2, dilation=dilation)
        self.mix = nn.Conv1d(cout, cout, 1)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else None

    def forward(self, x):
        y = self.conv(F.pad(x, (self.dilation, 0)))
        a, b = y.chunk(2, dim=1)
        y = torch.tanh(a) * torch.sigmoid(b)
        res = x if self.skip is None else self.skip(x)
        return res + self.mix(y)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = GatedBlock(CHANS, HID, 1)
        self.b2 = GatedBlock(HID, HID, 2)
        self.proj = nn.Linear(HID, PROJ)

    def forward(self, x):
        h = self.b2(self.b1(x))
        return self.proj(h.mean(dim=-1))


def off_diagonal(m):
    n = m.shape[0]
    return m.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


def vicreg(za, zb):
    inv = F.mse_loss(za, zb)
    za = za - za.mean(dim=0)
    zb = zb - zb.mean(dim=0)
    std_a = torch.sqrt(za.var(dim=0) + 1e-4)
    std_b = torch.sqrt(zb.var(dim=0) + 1e-4)
    var = torch.mean(F.relu(1 - std_a)) / 2 + torch.mean(F.relu(1 - std_b)) / 2
    cov_a = (za.T @ za) / (za.shape[0] - 1)
    cov_b = (zb.T @ zb) / (zb.shape[0] - 1)
    cov = off_diagonal(cov_a).pow(2).sum() / PROJ + off_diagonal(cov_b).pow(2).sum() / PROJ
    return 25.0 * inv + 25.0 * var + cov


def sgd(params, bufs):
    for p, b in zip(params, bufs):
        g = p.grad + 1e-4 * p
        b.copy_(MOMENTUM * b + g)
        p.sub_(LR * (g + MOMENTUM * b))


def ema_update(ema, params):
    for e, p in zip(ema, params):
        e.copy_(EMA * e + (1 - EMA) * p)


def main():
    torch.manual_seed(51)
    device = torch_xla.device()
    model = Encoder().to(device)
    params = list(model.parameters())
    bufs = [torch.zeros_like(p, requires_grad=False) for p in params]
    ema = [p.detach().clone() for p in params]
    torch_xla.sync()
    gen = torch.Generator().manual_seed(23)
    for step in range(6):
        x = torch.randn(BATCH, CHANS, TIME, generator=gen)
        gain = 1 + 0.2 * torch.randn(BATCH, CHANS, 1, generator=gen)
        noise = 0.1 * torch.randn(BATCH, CHANS, TIME, generator=gen)
        x, gain, noise = x.to(device), gain.to(device), noise.to(device)

        model.zero_grad(set_to_none=True)
        loss = vicreg(model(x * gain), model(x + noise))
        loss.backward()
        with torch.no_grad():
            sgd(params, bufs)
            ema_update(ema, params)
        loss = loss.detach()
        if step == DUMP_AT:
            live = [loss] + params + [p.grad for p in params] + bufs + ema
            text = torch_xla._XLAC._get_xla_tensors_hlo(live)
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
                f.write(text)
        torch_xla.sync()
        sums = [sum(t.detach().cpu().double().abs().sum() for t in ts) for ts in (params, bufs, ema)]
        print(step, f"{loss.item():.6f}", *[f"{s:.6f}" for s in sums])


if __name__ == "__main__":
    main()
