"""Quantisation-aware fine-tuning of a bearing-vibration classifier (1-d convolutions)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FREEZE_OBSERVERS_AT = 4
CLASSES = 4


class FakeQuant(nn.Module):
    """Asymmetric 8-bit fake quantisation with a straight-through gradient."""

    def __init__(self, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.observing = True
        self.register_buffer("lo", torch.tensor(-1.0))
        self.register_buffer("hi", torch.tensor(1.0))

    def forward(self, x):
        if self.training and self.observing:
            with torch.no_grad():
                self.lo.lerp_(x.min(), self.momentum)
                self.hi.lerp_(x.max(), self.momentum)
        scale = (self.hi - self.lo).clamp(min=1e-5) / 255.0
        zero = torch.round(-self.lo / scale)
        q = torch.clamp(torch.round(x / scale) + zero, 0.0, 255.0)
        y = (q - zero) * scale
        return x + (y - x).detach()


class QConv(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 5, stride=stride, padding=2, bias=False)
        self.gamma = nn.Parameter(torch.ones(c_out, 1))
        self.beta = nn.Parameter(torch.zeros(c_out, 1))
        self.act_q = FakeQuant()

    def forward(self, x):
        w = self.conv.weight
        w_scale = w.detach().abs().amax(dim=(1, 2), keepdim=True) / 127.0
        wq = torch.round(w / w_scale).clamp(-127.0, 127.0) * w_scale
        wq = w + (wq - w).detach()
        y = F.conv1d(x, wq, stride=self.conv.stride, padding=self.conv.padding)
        y = F.relu(y * self.gamma + self.beta)
        return self.act_q(y)


class VibNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_q = FakeQuant()
        self.c1 = QConv(2, 6, 2)
        self.c2 = QConv(6, 8, 2)
        self.c3 = QConv(8, 8, 2)
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.c3(self.c2(self.c1(self.in_q(x))))
        return self.fc(torch.cat([x.mean(-1), x.amax(-1)], dim=1))


def set_observers(net, on):
    for m in net.modules():
        if isinstance(m, FakeQuant):
            m.observing = on


def train_step(net, opt, x, y):
    opt.zero_grad()
    logits = net(x)
    loss = F.cross_entropy(logits, y, label_smoothing=0.05)
    loss.backward()
    opt.step()
    acc = (logits.detach().argmax(1) == y).float().mean()
    return loss.detach(), acc


def make_batch(gen, device):
    x = torch.randn(8, 2, 64, generator=gen)
    y = torch.randint(0, CLASSES, (8,), generator=gen)
    return x.to(device), y.to(device)


def live_tensors(net, opt, logs):
    out = list(logs)
    for m in net.modules():
        if isinstance(m, FakeQuant) and m.observing:   # frozen ranges are not written
            out += [m.lo, m.hi]
    for p in net.parameters():
        out += [p.data, p.grad, opt.state[p]["momentum_buffer"]]
    return out


def run(steps, dumps):
    device = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = VibNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
    torch_xla.sync()
    hist = []
    for step in range(steps):
        if step == FREEZE_OBSERVERS_AT:
            set_observers(net, False)
        x, y = make_batch(gen, device)
        logs = train_step(net, opt, x, y)
        if step in dumps:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(net, opt, logs))
            with open(dumps[step], "w") as f:
                f.write(text)
        torch_xla.sync()
        hist.append([v.item() for v in logs])
    return hist


if __name__ == "__main__":
    # python step.py 3:a.hlo 4:b.hlo
    dumps = {int(a.split(":")[0]): a.split(":")[1] for a in sys.argv[1:]}
    for row in run(max(dumps, default=5) + 1, dumps):
        print(row)
