"""Self-supervised embeddings of bat echolocation calls (two views of one spectrogram)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

MELS, FRAMES, BATCH = 24, 16, 8


class SeparableConv(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, stride=stride, padding=1, groups=cin, bias=False)
        self.point = nn.Conv2d(cin, cout, 1, bias=False)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.hardswish(self.bn(self.point(self.depth(x))))


class CallEncoder(nn.Module):
    def __init__(self, width=12, dim=32):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.body = nn.Sequential(SeparableConv(width, 2 * width, 2),
                                  SeparableConv(2 * width, dim, 1))
        self.project = nn.Sequential(nn.Linear(dim, dim, bias=False), nn.BatchNorm1d(dim), nn.ReLU(),
                                     nn.Linear(dim, dim))

    def forward(self, x):
        h = self.body(F.hardswish(self.stem(x)))
        return self.project(h.mean((2, 3)))


class Pretrainer(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder = CallEncoder(dim=dim)
        self.predictor = nn.Sequential(nn.Linear(dim, dim // 2), nn.ReLU(), nn.Linear(dim // 2, dim))

    def distance(self, p, z):
        z = z.detach()
        p = F.normalize(p, dim=1)
        z = F.normalize(z, dim=1)
        return -(p * z).sum(dim=1).mean()

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return 0.5 * self.distance(pa, zb) + 0.5 * self.distance(pb, za)


def views(seed):
    g = torch.Generator().manual_seed(seed)
    spec = torch.randn(BATCH, 1, MELS, FRAMES, generator=g)
    out = []
    for _ in range(2):
        gain = 0.8 + 0.4 * torch.rand(BATCH, 1, 1, 1, generator=g)
        keep = (torch.rand(BATCH, 1, MELS, 1, generator=g) > 0.15).float()
        out.append(spec * gain * keep)
    return out


def main():
    torch.manual_seed(6)
    device = xm.xla_device()
    model = Pretrainer().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for step in range(4):
        a, b = (v.to(device) for v in views(step))
        opt.zero_grad()
        loss = model(a, b)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile"), round(loss.item(), 4))


if __name__ == "__main__":
    main()
