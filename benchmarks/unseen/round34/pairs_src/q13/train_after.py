"""Part segmentation of LiDAR crops with a small PointNet; gradients are gathered over micro batches."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

POINTS, CLASSES, MICRO, ACCUM = 24, 5, 4, 2


class SharedMLP(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv1d(cin, cout, 1, bias=False), nn.BatchNorm1d(cout), nn.ReLU())


class PartNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = SharedMLP(3, 16)
        self.high = SharedMLP(16, 32)
        self.fuse = SharedMLP(48, 16)
        self.out = nn.Conv1d(16, CLASSES, 1)

    def forward(self, xyz):
        low = self.low(xyz)
        glob = self.high(low).amax(dim=2, keepdim=True).expand(-1, -1, xyz.shape[2])
        return self.out(self.fuse(torch.cat([low, glob], dim=1)))


def crops(n):
    g = torch.Generator().manual_seed(3)
    for _ in range(n):
        xyz = torch.randn(MICRO, 3, POINTS, generator=g)
        part = ((xyz[:, 0] > 0).long() + 2 * (xyz[:, 2] > 0.3).long())
        part[xyz.norm(dim=1) > 2.2] = -100
        yield xyz, part


def optimizer_update(model, opt, max_norm):
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(1.0 / ACCUM)
    opt.step()
    opt.zero_grad()
    return norm


def main(updates=3):
    torch.manual_seed(11)
    device = xm.xla_device()
    model = PartNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    torch_xla.sync()
    history = []
    total = 0.0
    for i, (xyz, part) in enumerate(crops(updates * ACCUM)):
        xyz, part = xyz.to(device), part.to(device)
        loss = F.cross_entropy(model(xyz), part, ignore_index=-100)
        loss.backward()
        total = total + loss.detach()
        if (i + 1) % ACCUM == 0:
            norm = optimizer_update(model, opt, max_norm=0.5)
            history.append((total / ACCUM, norm))
            total = 0.0
            torch_xla.sync()
    for k, (l, n) in enumerate(history):
        print(f"update {k}: loss {l.item():.4f} |g| {n.item():.3f}")


if __name__ == "__main__":
    main()
