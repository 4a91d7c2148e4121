"""Quantization-aware training: collect ranges first, then train with fake quantization."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class FakeQuant(nn.Module):
    def __init__(self, bits=8):
        super().__init__()
        self.levels = 2 ** (bits - 1) - 1
        self.register_buffer("amax", torch.zeros(1))
        self.enabled = False

    def forward(self, x):
        if not self.enabled:
            self.amax.copy_(torch.maximum(self.amax, x.detach().abs().max()))
            return x
        scale = self.amax / self.levels
        q = torch.clamp(torch.round(x / scale), -self.levels, self.levels) * scale
        return x + (q - x).detach()


class QuantLinear(nn.Linear):
    def __init__(self, *a):
        super().__init__(*a)
        self.qx, self.qw = FakeQuant(), FakeQuant()

    def forward(self, x):
        return nn.functional.linear(self.qx(x), self.qw(self.weight), self.bias)


def enable(model):
    for m in model.modules():
        if isinstance(m, FakeQuant):
            m.enabled = True


CALIBRATE, STEPS = 4, 12
torch.manual_seed(6)
device = xm.xla_device()
model = nn.Sequential(QuantLinear(8, 16), nn.ReLU(), QuantLinear(16, 2)).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(STEPS):
    if step == CALIBRATE:
        enable(model)
        print("ranges fixed, fake quantization on")
    x = torch.randn(10, 8)
    y = (x[:, 0] > x[:, 1]).long()
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    xm.mark_step()
    if step % 4 == 3:
        print(step, loss.item())
