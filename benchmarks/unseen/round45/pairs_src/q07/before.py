"""Pen-stroke model: LSTM cell with a mixture density head, truncated BPTT (torch_xla)."""
import os
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, SEQ, HID, MIX = 5, 3, 8, 3
DUMP_AT = 4
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


class StrokeRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(3, 4 * HID)
        self.rec = nn.Linear(HID, 4 * HID, bias=False)
        self.head = nn.Linear(HID, 6 * MIX + 1)

    def cell(self, x, h, c):
        i, f, g, o = (self.inp(x) + self.rec(h)).chunk(4, dim=1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c

    def forward(self, xs, state):
        h, c = state
        outs = []
        for t in range(xs.shape[1]):
            h, c = self.cell(xs[:, t], h, c)
            outs.append(h)
        return self.head(torch.stack(outs, dim=1)), (h, c)


def mdn_nll(params, target, mask):
    """Bivariate Gaussian mixture over the next offset, Bernoulli for the pen lift."""
    pi, mx, my, sx, sy, rho = params[..., :-1].split(MIX, dim=-1)
    pen = params[..., -1]
    log_pi = F.log_softmax(pi, dim=-1)
    rho = 0.95 * torch.tanh(rho)
    zx = (target[..., 0:1] - mx) * torch.exp(-sx)
    zy = (target[..., 1:2] - my) * torch.exp(-sy)
    one = 1.0 - rho * rho
    quad = (zx * zx + zy * zy - 2.0 * rho * zx * zy) / (2.0 * one)
    log_n = -quad - sx - sy - 0.5 * torch.log(one) - math.log(2.0 * math.pi)
    joint = log_pi + log_n
    top = joint.max(dim=-1, keepdim=True).values.detach()
    log_mix = torch.log(torch.exp(joint - top).sum(dim=-1)) + top.squeeze(-1)
    bce = F.softplus(pen) - target[..., 2] * pen
    nll = (bce - log_mix) * mask
    return nll.sum() / mask.sum()


def clip_and_step(params, sq, mom, lr):
    total = torch.sqrt(sum(p.grad.pow(2).sum() for p in params))
    scale = torch.clamp(2.0 / (total + 1e-6), max=1.0)
    for p, s, m in zip(params, sq, mom):
        g = p.grad * scale
        s.mul_(0.95).addcmul_(g, g, value=0.05)
        m.mul_(0.9).addcdiv_(g, s.sqrt().add_(1e-4))
        p.sub_(lr * m)
    return total


def main():
    torch.manual_seed(61)
    device = torch_xla.device()
    model = StrokeRNN().to(device)
    params = list(model.parameters())
    sq = [torch.zeros_like(p, requires_grad=False) for p in params]
    mom = [torch.zeros_like(p, requires_grad=False) for p in params]
    state = (torch.zeros(BATCH, HID, device=device), torch.zeros(BATCH, HID, device=device))
    torch_xla.sync()
    gen = torch.Generator().manual_seed(29)
    for step in range(7):
        xs = torch.randn(BATCH, SEQ + 1, 3, generator=gen)
        xs[..., 2] = (xs[..., 2] > 1.0).float()
        mask = (torch.rand(BATCH, SEQ, generator=gen) > 0.2).float().to(device)
        xs = xs.to(device)

        model.zero_grad(set_to_none=True)
        out, state = model(xs[:, :-1], state)
        loss = mdn_nll(out, xs[:, 1:], mask)
        loss.backward()
        state = tuple(s.detach() for s in state)
        with torch.no_grad():
            norm = clip_and_step(params, sq, mom, 1e-3)
        loss = loss.detach()
        if step == DUMP_AT:
            live = [loss, norm, *state] + params + [p.grad for p in params] + sq + mom
            text = torch_xla._XLAC._get_xla_tensors_hlo(live)
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, f"{loss.item():.6f} {norm.item():.6f}")


if __name__ == "__main__":
    main()
