"""Bird-call metric learning: batch-hard triplet loss on log-mel patches.

Usage: step.py OUT_DIR   (writes a.hlo for step 0 and b.hlo for step 1)
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class SE(nn.Module):
    def __init__(self, ch, r=4):
        super().__init__()
        self.fc1 = nn.Linear(ch, ch // r)
        self.fc2 = nn.Linear(ch // r, ch)

    def forward(self, x):
        s = x.mean((2, 3))
        s = torch.sigmoid(self.fc2(F.silu(self.fc1(s))))
        return x * s[:, :, None, None]


class CallNet(nn.Module):
    def __init__(self, ch=8, emb=16):
        super().__init__()
        self.stem = nn.Conv2d(1, ch, 3, stride=2, padding=1, bias=False)
        self.n1 = nn.GroupNorm(2, ch)
        self.dw = nn.Conv2d(ch, ch, 3, padding=1, groups=ch, bias=False)
        self.pw = nn.Conv2d(ch, 2 * ch, 1, bias=False)
        self.n2 = nn.GroupNorm(4, 2 * ch)
        self.se = SE(2 * ch)
        self.fc = nn.Linear(2 * ch, emb)

    def forward(self, x):
        x = F.silu(self.n1(self.stem(x)))
        x = F.silu(self.n2(self.pw(self.dw(x))))
        x = self.se(x).mean((2, 3))
        return F.normalize(self.fc(x), dim=1)


def batch_hard(e, y, margin=0.3):
    sim = e @ e.t()
    dist = (2 - 2 * sim).clamp(min=1e-6).sqrt()
    same = y[:, None] == y[None, :]
    pos = (dist * same.float()).amax(1)
    neg = torch.where(same, torch.full_like(dist, 10.0), dist).amin(1)
    return F.softplus((pos - neg + margin) * 4).mean(), (pos < neg).float().mean()


def param_groups(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": 1e-3},
            {"params": plain, "weight_decay": 0.0}]


def main(outdir):
    torch.manual_seed(0)
    dev = xm.xla_device()
    model = CallNet().to(dev)
    opt = torch.optim.SGD(param_groups(model), lr=0.05, momentum=0.9,
                          dampening=0.1)
    params = list(model.parameters())
    g = torch.Generator().manual_seed(9)
    for step in range(3):
        x = torch.randn(8, 1, 16, 20, generator=g).to(dev)
        y = torch.arange(8).div(2, rounding_mode="floor").to(dev)
        xm.mark_step()
        loss, acc = batch_hard(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step < 2:
            live = list(params)
            live += [opt.state[p]["momentum_buffer"] for p in params]
            live += [loss.detach(), acc]
            with open(os.path.join(outdir, "ab"[step] + ".hlo"), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item(), acc.item())


if __name__ == "__main__":
    main(sys.argv[1])
