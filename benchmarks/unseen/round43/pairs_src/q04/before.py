"""Handwriting-style stroke prediction: GRU cell unrolled, mixture density head (bivariate), SGD."""
import math
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch_xla

B, T, HID, K = 4, 2, 14, 3


class StrokeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, HID)
        self.head = nn.Linear(HID, 6 * K + 1)

    def forward(self, strokes):
        h = strokes.new_zeros(strokes.shape[0], HID)
        outs = []
        for t in range(strokes.shape[1]):
            h = self.cell(strokes[:, t], h)
            outs.append(self.head(h))
        return torch.stack(outs, dim=1)


def mdn_loss(out, target, mask):
    pi = torch.softmax(out[..., :K], dim=-1)
    mu_x = out[..., K:2 * K]
    mu_y = out[..., 2 * K:3 * K]
    sx = torch.exp(out[..., 3 * K:4 * K])
    sy = torch.exp(out[..., 4 * K:5 * K])
    rho = torch.tanh(out[..., 5 * K:6 * K])
    pen = out[..., 6 * K]

    dx = target[..., 0]
    dy = target[..., 1]
    density = 0.0
    for k in range(K):
        zx = (dx - mu_x[..., k]) / sx[..., k]
        zy = (dy - mu_y[..., k]) / sy[..., k]
        one_m = 1.0 - rho[..., k] * rho[..., k]
        z = zx * zx + zy * zy - 2.0 * rho[..., k] * zx * zy
        norm = 2.0 * math.pi * sx[..., k] * sy[..., k] * torch.sqrt(one_m)
        density = density + pi[..., k] * torch.exp(-z / (2.0 * one_m)) / norm
    nll = -torch.log(density)

    up = target[..., 2]
    p = torch.sigmoid(pen)
    bce = -(up * torch.log(p) + (1.0 - up) * torch.log(1.0 - p))
    return ((nll + bce) * mask).sum() / mask.sum()


def make_batch(gen):
    seq = 0.5 * torch.randn(B, T + 1, 3, generator=gen)
    seq[..., 2] = (torch.rand(B, T + 1, generator=gen) < 0.2).float()
    lengths = torch.randint(1, T + 1, (B, 1), generator=gen)
    mask = (torch.arange(T)[None] < lengths).float()
    return seq[:, :-1].contiguous(), seq[:, 1:].contiguous(), mask


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main(path, steps=4):
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    dev = torch_xla.device()
    model = StrokeNet().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for i in range(steps):
        x, y, mask = (t.to(dev) for t in make_batch(gen))
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        loss = mdn_loss(model(x), y, mask)
        loss.backward()
        opt.step()
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss.detach()])))
        torch_xla.sync()
        print(i, loss.item(), [round(p.double().sum().item(), 6) for p in model.parameters()])


if __name__ == "__main__":
    main(sys.argv[1])
