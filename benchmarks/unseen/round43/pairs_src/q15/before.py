"""Conditional affine-coupling flow for calorimeter shower energies (torch_xla)."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DIM, COND, HID, BATCH, BLOCKS = 6, 2, 16, 24, 3


class ActNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(DIM))
        self.log_scale = nn.Parameter(torch.zeros(DIM))

    def forward(self, x):
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum()


class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        half = DIM // 2
        self.inp = nn.Linear(half + COND, HID)
        self.out = nn.Linear(HID, 2 * (DIM - half))
        self.bound = 1.8

    def forward(self, x, cond):
        xa, xb = x.chunk(2, dim=-1)
        h = F.gelu(self.inp(torch.cat([xa, cond], dim=-1)))
        raw, t = self.out(h).chunk(2, dim=-1)
        s = self.bound * torch.tanh(raw / self.bound)
        xb = xb * s.exp() + t
        return torch.cat([xa, xb], dim=-1), s.sum(-1)


class ShowerFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(ActNorm() for _ in range(BLOCKS))
        self.couplings = nn.ModuleList(Coupling() for _ in range(BLOCKS))

    def forward(self, x, cond):
        logdet = torch.zeros(x.shape[0], device=x.device)
        for norm, coup in zip(self.norms, self.couplings):
            x, ld = norm(x)
            logdet = logdet + ld
            x, ld = coup(x, cond)
            logdet = logdet + ld
            x = x.flip(-1)
        return x, logdet

    def nll(self, x, cond):
        z, logdet = self(x, cond)
        prior = -0.5 * (z * z).sum(-1) - 0.5 * DIM * math.log(2 * math.pi)
        return -(prior + logdet).mean()


def to_logit(e, lam=1e-4):
    e = lam + (1.0 - 2.0 * lam) * e
    return torch.log(e) - torch.log1p(-e)


def train_step(model, opt, e, cond):
    opt.zero_grad()
    loss = model.nll(to_logit(e), cond)
    loss.backward()
    gnorm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    return loss.detach(), gnorm


def live(model, opt):
    out = list(model.parameters())
    out += [p.grad for p in model.parameters() if p.grad is not None]
    for st in opt.state.values():
        out += [v for v in st.values() if torch.is_tensor(v)]
    return out


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def main(path):
    torch.manual_seed(15)
    device = torch_xla.device()
    model = ShowerFlow().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=1e-2)
    gen = torch.Generator().manual_seed(4)
    torch_xla.sync()
    for step in range(3):
        e = torch.rand(BATCH, DIM, generator=gen).to(device)
        cond = torch.randn(BATCH, COND, generator=gen).to(device)
        out = train_step(model, opt, e, cond)
        if step == 2:
            dump(path, live(model, opt) + list(out))
        torch_xla.sync()
        print(step, [round(float(v), 5) for v in out])


if __name__ == "__main__":
    main(sys.argv[1])
