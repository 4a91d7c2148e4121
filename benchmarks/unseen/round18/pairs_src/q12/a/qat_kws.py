"""Quantization-aware training of a keyword spotter (per-tensor weights, moving-range activations)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MELS, FRAMES, WORDS, BATCH = 8, 20, 6, 4


class Round(torch.autograd.Function):
    """Rounds with a straight-through gradient."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


def fake_quant(x, scale, bits=8):
    lim = 2 ** (bits - 1) - 1
    return Round.apply((x / scale).clamp(-lim, lim)) * scale


class ActRange(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("peak", torch.ones(()))

    def forward(self, x):
        with torch.no_grad():
            self.peak.copy_(0.9 * self.peak + 0.1 * x.abs().max())
        return fake_quant(x, self.peak / 127)


class QConv(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 3, stride=stride, padding=1)
        self.act = ActRange()

    def forward(self, x):
        scale = self.conv.weight.detach().abs().max() / 127
        w = fake_quant(self.conv.weight, scale)
        y = F.conv1d(x, w, self.conv.bias, stride=self.conv.stride, padding=self.conv.padding)
        return self.act(F.relu(y))


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(QConv(MELS, 12), QConv(12, 16, stride=2), QConv(16, 16))
        self.head = nn.Linear(16, WORDS)

    def forward(self, x):
        return self.head(self.body(x).mean(-1))


def main():
    torch.manual_seed(31)
    device = xm.xla_device()
    net = Spotter().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    torch_xla.sync()
    for step in range(3):
        x = torch.randn(BATCH, MELS, FRAMES).to(device)
        y = torch.randint(WORDS, (BATCH,)).to(device)
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(-1) == y).float().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item(), acc.item())


if __name__ == "__main__":
    main()
