import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# Pillar-based bird's-eye-view detector for a small roadside lidar.
GRID = 16
CELL = 1.0
POINTS = 320
BATCH = 3
FEAT = 12
STEPS = 30
CLASSES = ("car", "cyclist", "pedestrian")
EXTENT = {"car": (4.2, 1.8, 1.5), "cyclist": (1.8, 0.6, 1.7), "pedestrian": (0.6, 0.6, 1.75)}


class Scenes:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def frame(self):
        r = self.rng
        pts, heat = [], np.zeros((len(CLASSES), GRID, GRID), np.float32)
        height = np.zeros((GRID, GRID), np.float32)
        for _ in range(int(r.integers(2, 7))):
            c = int(r.integers(len(CLASSES)))
            l, w, h = EXTENT[CLASSES[c]]
            centre = r.uniform(1.5, GRID * CELL - 1.5, size=2)
            if r.random() < 0.5:
                l, w = w, l
            dist = np.linalg.norm(centre - np.array([GRID * CELL / 2, -2.0]))
            n = int(120 / (1 + 0.2 * dist))
            body = r.uniform(-0.5, 0.5, size=(n, 3)) * np.array([l, w, h]) + np.array([*centre, h / 2])
            pts.append(body)
            gx, gy = (centre / CELL).astype(int)
            heat[c, gy, gx] = 1.0
            height[gy, gx] = h
        ground = np.concatenate([r.uniform(0, GRID * CELL, size=(400, 2)), r.normal(0, 0.03, size=(400, 1))], 1)
        near = ground[r.random(400) < np.exp(-ground[:, 1] / 9.0)]
        cloud = np.concatenate(pts + [near])
        cloud[:, :2] = cloud[:, :2].clip(0, GRID * CELL - 1e-3)
        keep = r.choice(len(cloud), size=POINTS, replace=len(cloud) < POINTS)
        return cloud[keep].astype(np.float32), heat, height

    def batch(self):
        cloud, heat, height = zip(*(self.frame() for _ in range(BATCH)))
        return (torch.from_numpy(np.stack(a)) for a in (cloud, heat, height))


class PillarEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.point = nn.Linear(8, FEAT)
        self.norm = nn.LayerNorm(FEAT)

    def forward(self, cloud):
        b, n, _ = cloud.shape
        pts = cloud.reshape(-1, 3)
        cell = (pts[:, :2] / CELL).long()
        frame = torch.arange(b, device=pts.device).repeat_interleave(n)
        key = (frame * GRID + cell[:, 1]) * GRID + cell[:, 0]
        pillars, owner, count = torch.unique(key, return_inverse=True, return_counts=True)

        mean = torch.zeros(pillars.size(0), 3, device=pts.device).index_add(0, owner, pts)
        mean = mean / count[:, None].float()
        offset = pts - mean[owner]
        centre = (cell.float() + 0.5) * CELL
        feats = torch.cat([pts, offset, pts[:, :2] - centre], dim=1)
        feats = F.relu(self.norm(self.point(feats)))
        pooled = torch.zeros(pillars.size(0), FEAT, device=pts.device).index_add(0, owner, feats)
        pooled = pooled / count[:, None].float()

        canvas = torch.zeros(b * GRID * GRID, FEAT, device=pts.device)
        canvas = canvas.index_copy(0, pillars, pooled)
        return canvas.view(b, GRID, GRID, FEAT)


class BEVHead(nn.Module):
    """Mixes 3x3 neighbourhoods with shifted linear layers, then per-cell outputs."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(5 * FEAT, 16)
        self.heat = nn.Linear(16, len(CLASSES))
        self.height = nn.Linear(16, 1)
        nn.init.constant_(self.heat.bias, -3.0)

    def forward(self, bev):
        p = F.pad(bev, (0, 0, 1, 1, 1, 1))
        around = [bev, p[:, 2:, 1:-1], p[:, :-2, 1:-1], p[:, 1:-1, 2:], p[:, 1:-1, :-2]]
        h = F.relu(self.mix(torch.cat(around, dim=-1)))
        return self.heat(h).permute(0, 3, 1, 2), self.height(h)[..., 0]


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = PillarEncoder()
        self.head = BEVHead()

    def forward(self, cloud):
        return self.head(self.encoder(cloud))


def focal(logits, target, alpha=0.75, gamma=2.0):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    at = alpha * target + (1 - alpha) * (1 - target)
    return (at * (1 - pt) ** gamma * ce).sum() / target.sum().clamp(min=1.0)


def height_loss(pred, height):
    owned = (height > 0).float()
    return (F.smooth_l1_loss(pred, height, reduction="none") * owned).sum() / owned.sum().clamp(min=1.0)


def train():
    torch.manual_seed(17)
    device = torch_xla.device()
    scenes = Scenes(seed=23)
    net = Detector().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=STEPS)
    torch_xla.sync()

    for step in range(STEPS):
        cloud, heat, height = (t.to(device) for t in scenes.batch())
        logits, h = net(cloud)
        cls, reg = focal(logits, heat), height_loss(h, height)
        loss = cls + 0.5 * reg
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 6 == 5:
            print(f"step {step + 1:2d} focal {cls.item():.4f} height {reg.item():.4f}")


if __name__ == "__main__":
    train()
