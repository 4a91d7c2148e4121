import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# WaveNet-like vocoder, mu-law classes
CLASSES = 64


class Gated(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = dilation
        self.filt = nn.Conv1d(ch, ch, 2, dilation=dilation)
        self.gate = nn.Conv1d(ch, ch, 2, dilation=dilation)
        self.res = nn.Conv1d(ch, ch, 1)
        self.skip = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        y = F.pad(x, (self.pad, 0))
        y = torch.tanh(self.filt(y)) * torch.sigmoid(self.gate(y))
        return x + self.res(y), self.skip(y)


class Wave(nn.Module):
    def __init__(self, ch=24, dilations=(1, 2, 4)):
        super().__init__()
        self.inp = nn.Conv1d(1, ch, 1)
        self.stack = nn.ModuleList([Gated(ch, d) for d in dilations])
        self.out = nn.Conv1d(ch, CLASSES, 1)

    def forward(self, x):
        h = self.inp(x)
        skips = 0
        for g in self.stack:
            h, s = g(h)
            skips = skips + s
        return self.out(F.relu(skips))


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch_xla.device()
    net = Wave().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=False, capturable=True)
    wav = torch.sin(torch.arange(40000) / 7.0)
    for i in range(3):
        seg = torch.stack([wav[k * 900 + i:k * 900 + i + 129] for k in range(4)])
        tgt = ((seg[:, 1:] + 1) / 2 * (CLASSES - 1)).long().to(device)
        x = seg[:, None, :-1].to(device)
        loss = F.cross_entropy(net(x), tgt)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
