"""BYOL-style self-distillation on sensor windows (two augmented views)."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def projector(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(inplace=True), nn.Linear(h, o))


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(3, 16, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.proj = projector(32, 64, 24)
        self.pred = projector(24, 12, 24)

    def forward(self, v1, v2):
        z1 = self.proj(self.backbone(v1))
        z2 = self.proj(self.backbone(v2))
        return self.pred(z1), self.pred(z2), z1, z2


def neg_cos(p, z):
    return -F.cosine_similarity(p, z.detach(), dim=-1).mean()


def augment(x):
    jitter = x + 0.05 * torch.randn_like(x)
    return jitter * (1 + 0.1 * torch.randn(x.shape[0], 1, 1))


def run(steps=4):
    torch.manual_seed(2)
    dev = torch_xla.device()
    net = SimSiam().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    for _ in range(steps):
        x = torch.randn(16, 3, 64)
        v1, v2 = augment(x).to(dev), augment(x).to(dev)
        p1, p2, z1, z2 = net(v1, v2)
        loss = 0.5 * neg_cos(p1, z2) + 0.5 * neg_cos(p2, z1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()


run()
