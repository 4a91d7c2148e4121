"""Pillar-based detector pretraining on simulated lidar sweeps: bird's-eye-view objectness."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GRID = 12
RANGE = 12.0
POINTS = 240
SWEEPS = 3
STEPS = 18


class PillarEncoder(nn.Module):
    """Groups points by ground cell and returns one feature map per sweep."""

    def __init__(self, channels=16, grid=GRID, extent=RANGE):
        super().__init__()
        self.grid, self.extent, self.channels = grid, extent, channels
        self.point_net = nn.Sequential(nn.Linear(7, channels), nn.ReLU(), nn.Linear(channels, channels))
        self.norm = nn.LayerNorm(channels)
        self.pillar_net = nn.Linear(channels, channels)

    def forward(self, points):
        b, n, _ = points.shape
        cell = (points[..., :2] / self.extent * self.grid).long().clamp(0, self.grid - 1)
        sweep = torch.arange(b, device=points.device)[:, None]
        key = ((sweep * self.grid + cell[..., 0]) * self.grid + cell[..., 1]).reshape(-1)

        pillars, owner = torch.unique(key, return_inverse=True)
        count = torch.zeros(pillars.numel(), 1, device=points.device)
        count.index_add_(0, owner, torch.ones(key.numel(), 1, device=points.device))

        flat = points.reshape(-1, 4)
        center = torch.zeros(pillars.numel(), 3, device=points.device)
        center.index_add_(0, owner, flat[:, :3])
        offset = flat[:, :3] - (center / count)[owner]
        feats = self.point_net(torch.cat([flat, offset], dim=1))

        pooled = torch.zeros(pillars.numel(), self.channels, device=points.device)
        pooled = pooled.index_add(0, owner, feats) / count
        pooled = F.relu(self.pillar_net(self.norm(pooled)))

        canvas = torch.zeros(b * self.grid * self.grid, self.channels, device=points.device)
        canvas = canvas.index_copy(0, pillars, pooled)
        return canvas.view(b, self.grid, self.grid, self.channels).permute(0, 3, 1, 2)


class BEVNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.encoder = PillarEncoder(channels)
        self.backbone = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
        )
        self.objectness = nn.Conv2d(channels, 1, 1)

    def forward(self, points):
        return self.objectness(self.backbone(self.encoder(points))).squeeze(1)


class LidarSimulator:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def sweep(self):
        rng = self.rng
        boxes = rng.uniform(1, RANGE - 1, size=(rng.integers(2, 6), 2))
        per_box = POINTS // 8
        clouds = []
        for box in boxes:
            xy = box + rng.normal(0, 0.35, (per_box, 2))
            clouds.append(np.column_stack([xy, rng.uniform(0.2, 1.6, per_box), rng.random(per_box)]))
        ground = POINTS - per_box * len(boxes)
        xy = rng.uniform(0, RANGE, (ground, 2))
        clouds.append(np.column_stack([xy, rng.normal(0, 0.03, ground), 0.3 * rng.random(ground)]))
        points = np.concatenate(clouds)
        rng.shuffle(points)
        target = np.zeros((GRID, GRID))
        cells = np.clip((boxes / RANGE * GRID).astype(int), 0, GRID - 1)
        target[cells[:, 0], cells[:, 1]] = 1.0
        return points, target

    def batch(self):
        points, targets = zip(*(self.sweep() for _ in range(SWEEPS)))
        return (torch.tensor(np.stack(points), dtype=torch.float32),
                torch.tensor(np.stack(targets), dtype=torch.float32))


def focal_loss(logits, target, alpha=0.75, gamma=2.0):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * (1 - pt) ** gamma * ce).sum() / target.sum().clamp(min=1.0)


def main():
    torch.manual_seed(14)
    device = torch_xla.device()
    model = BEVNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=STEPS, final_div_factor=10)
    lidar = LidarSimulator(14)

    model.train()
    for step in range(STEPS):
        points, target = lidar.batch()
        points, target = points.to(device), target.to(device)
        logits = model(points)
        loss = focal_loss(logits, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        xm.mark_step()
        if (step + 1) % 6 == 0:
            recall = ((logits.detach().cpu() > 0) & (target.cpu() > 0)).sum() / target.cpu().sum()
            print(f"step {step + 1} loss {loss.item():.4f} recall {recall.item():.3f}")


if __name__ == "__main__":
    main()
