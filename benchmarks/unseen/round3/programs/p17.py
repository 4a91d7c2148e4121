import numpy as np
import torch
import torch.nn as nn
import torch_xla


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.glob = nn.Linear(16, 4)

    def forward(self, pts):
        return self.glob(self.local(pts).max(1).values)


def voxel_downsample(points, size):
    cell = np.floor(points / size).astype(np.int64)
    _, first = np.unique(cell, axis=0, return_index=True)
    return points[np.sort(first)]


class Clouds:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def next(self, views=2):
        label = self.rng.integers(4)
        pts = self.rng.normal(size=(60, 3)) * (0.3 + 0.2 * label)
        pts = voxel_downsample(pts, 0.4).astype(np.float32)
        jitter = [pts + self.rng.normal(scale=0.02, size=pts.shape).astype(np.float32) for _ in range(views)]
        return torch.from_numpy(np.stack(jitter)), torch.full((views,), int(label))


torch.manual_seed(0)
device = torch_xla.device()
net, clouds = PointNet().to(device), Clouds(5)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
sched = torch.optim.lr_scheduler.StepLR(opt, 4, 0.5)
recent = []
for it in range(11):
    pts, label = clouds.next()
    loss = nn.functional.cross_entropy(net(pts.to(device)), label.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    recent.append(loss.detach())
    smooth = torch.stack(recent).mean()
    torch_xla.sync()
    print(it, f"{loss.item():.4f} {smooth.item():.4f}")
