"""Spiking network on event-camera gestures: LIF layers, surrogate gradient, rate-coded loss."""
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

T, B, CH, HID, CLASSES = 4, 6, 24, 20, 11


class FastSigmoid(torch.autograd.Function):
    slope = 10.0

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g / (FastSigmoid.slope * v.abs() + 1.0) ** 2


spike = FastSigmoid.apply


class LIF(nn.Module):
    def __init__(self, n, threshold=0.25):
        super().__init__()
        self.decay_logit = nn.Parameter(torch.full((n,), 2.0))
        self.threshold = threshold

    def forward(self, current, mem):
        beta = torch.sigmoid(self.decay_logit)
        mem = beta * mem + current
        spk = spike(mem - self.threshold)
        # soft reset; the surrogate must not flow through the reset path
        mem = mem - spk.detach() * self.threshold
        return spk, mem


class Readout(nn.Module):
    """Leaky integrator without spikes."""

    def __init__(self, n):
        super().__init__()
        self.decay_logit = nn.Parameter(torch.full((n,), 1.0))

    def forward(self, current, mem):
        beta = torch.sigmoid(self.decay_logit)
        return beta * mem + (1.0 - beta) * current


class GestureSNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(CH, HID, bias=False)
        self.lif1 = LIF(HID)
        self.fc2 = nn.Linear(HID, HID, bias=False)
        self.lif2 = LIF(HID)
        self.fc3 = nn.Linear(HID, CLASSES)
        self.out = Readout(CLASSES)

    def forward(self, events):
        b = events.shape[1]
        m1 = events.new_zeros(b, HID)
        m2 = events.new_zeros(b, HID)
        mo = events.new_zeros(b, CLASSES)
        volts, rates = [], []
        for t in range(events.shape[0]):
            s1, m1 = self.lif1(self.fc1(events[t]), m1)
            s2, m2 = self.lif2(self.fc2(s1), m2)
            mo = self.out(self.fc3(s2), mo)
            volts.append(mo)
            rates.append(0.5 * (s1.mean() + s2.mean()))
        return torch.stack(volts), torch.stack(rates)


def make_batch(gen):
    x = (torch.rand(T, B, CH, generator=gen) < 0.3).float()
    y = torch.randint(0, CLASSES, (B,), generator=gen)
    return x, y


def loss_fn(model, x, y):
    volts, rates = model(x)
    ce = F.cross_entropy(volts.max(dim=0).values, y)
    return ce + 0.1 * (rates.mean() - 0.15).pow(2)


def live_tensors(model, opt, extra):
    out = list(extra) + list(model.parameters())
    for p in model.parameters():
        st = opt.state[p]
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out


def main(path, steps=3):
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(5)
    dev = torch_xla.device()
    model = GestureSNN().to(dev)
    opt = torch.optim.Adamax(model.parameters(), lr=2e-3)
    for i in range(steps):
        x, y = (t.to(dev) for t in make_batch(gen))
        torch_xla.sync()
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(model, x, y)
        loss.backward()
        opt.step()
        if i == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss.detach()])))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
