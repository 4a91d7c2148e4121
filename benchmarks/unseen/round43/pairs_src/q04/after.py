"""Handwriting-style stroke prediction: GRU cell unrolled, mixture density head (bivariate), SGD."""
import math
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
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


def bivariate_log_prob(dx, dy, mu_x, mu_y, log_sx, log_sy, rho):
    """Log density of every component; dx, dy broadcast over the last axis."""
    zx = (dx.unsqueeze(-1) - mu_x) * torch.exp(-log_sx)
    zy = (dy.unsqueeze(-1) - mu_y) * torch.exp(-log_sy)
    one_m = 1.0 - rho.square()
    quad = (zx.square() + zy.square() - 2.0 * rho * zx * zy) / one_m
    return -0.5 * quad - log_sx - log_sy - 0.5 * torch.log(one_m) - math.log(2.0 * math.pi)


def mdn_loss(out, target, mask):
    mix, pen = out[..., :-1], out[..., -1]
    logit_pi, mu_x, mu_y, log_sx, log_sy, rho_raw = mix.chunk(6, dim=-1)
    log_prob = bivariate_log_prob(target[..., 0], target[..., 1], mu_x, mu_y, log_sx, log_sy, torch.tanh(rho_raw))
    nll = -torch.logsumexp(F.log_softmax(logit_pi, dim=-1) + log_prob, dim=-1)
    bce = F.binary_cross_entropy_with_logits(pen, target[..., 2], reduction="none")
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
