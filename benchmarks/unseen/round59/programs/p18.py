"""Anchor-free detector (centre heatmap + box size), multi-scale training and a periodic fixed-scale evaluation."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES, MAX_BOXES, STRIDE = 3, 5, 4
BASE, SCALES = 48, (48, 40, 56)
BATCH, STEPS, SWITCH = 6, 50, 3


def make_images(n, seed):
    rng = np.random.default_rng(seed)
    images = rng.normal(0, 0.2, (n, 3, BASE, BASE)).astype(np.float32)
    boxes = np.zeros((n, MAX_BOXES, 5), dtype=np.float32)      # cx cy w h cls, in [0, 1]
    valid = np.zeros((n, MAX_BOXES), dtype=np.float32)
    for i in range(n):
        for j in range(rng.integers(1, MAX_BOXES + 1)):
            w, h = rng.uniform(0.12, 0.35, 2)
            cx, cy = rng.uniform(w / 2, 1 - w / 2), rng.uniform(h / 2, 1 - h / 2)
            cls = rng.integers(0, CLASSES)
            x0, x1 = int((cx - w / 2) * BASE), int((cx + w / 2) * BASE)
            y0, y1 = int((cy - h / 2) * BASE), int((cy + h / 2) * BASE)
            images[i, cls, y0:y1, x0:x1] += 1.2
            boxes[i, j] = (cx, cy, w, h, cls)
            valid[i, j] = 1.0
    return torch.from_numpy(images), torch.from_numpy(boxes), torch.from_numpy(valid)


def block(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(2, cout), nn.SiLU())


class CenterDetector(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Sequential(block(3, width, 2), block(width, width, 2))
        self.neck = block(width, width, 1)
        self.heat = nn.Conv2d(width, CLASSES, 1)
        self.size = nn.Conv2d(width, 2, 1)
        nn.init.constant_(self.heat.bias, -2.2)

    def forward(self, x):
        f = self.stem(x)
        f = f + self.neck(f)
        return self.heat(f), self.size(f).sigmoid()


def render_targets(boxes, valid, grid):
    """Gaussian splat per box; padding boxes contribute nothing."""
    axis = (torch.arange(grid, device=boxes.device) + 0.5) / grid
    dy = axis.view(1, 1, -1, 1) - boxes[..., 1, None, None]
    dx = axis.view(1, 1, 1, -1) - boxes[..., 0, None, None]
    var = (boxes[..., 2:4].amin(-1) * 0.18).clamp(min=1e-3).square()[..., None, None]
    g = torch.exp(-(dx * dx + dy * dy) / (2 * var)) * valid[..., None, None]
    onehot = F.one_hot(boxes[..., 4].long(), CLASSES).float()
    return (g.unsqueeze(2) * onehot[..., None, None]).amax(1)


def detection_loss(heat, size, boxes, valid):
    grid = heat.shape[-1]
    target = render_targets(boxes, valid, grid)
    p = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = (target > 0.9).float()
    focal = -(pos * (1 - p) ** 2 * p.log() + (1 - pos) * (1 - target) ** 4 * p ** 2 * (1 - p).log())
    cell = (boxes[..., :2] * grid).long().clamp(0, grid - 1)
    flat = cell[..., 1] * grid + cell[..., 0]
    at = size.flatten(2).gather(2, flat.unsqueeze(1).expand(-1, 2, -1)).transpose(1, 2)
    reg = ((at - boxes[..., 2:4]).abs().sum(-1) * valid).sum() / valid.sum().clamp(min=1.0)
    return focal.sum() / valid.sum().clamp(min=1.0) + 2.0 * reg


@torch.no_grad()
def peak_recall(model, images, boxes, valid):
    heat, _ = model(images)
    grid = heat.shape[-1]
    peak = (heat == F.max_pool2d(heat, 3, 1, 1)) & (heat.sigmoid() > 0.25)
    near = F.max_pool2d(peak.float(), 3, 1, 1).flatten(1)
    cell = (boxes[..., :2] * grid).long().clamp(0, grid - 1)
    flat = boxes[..., 4].long() * grid * grid + cell[..., 1] * grid + cell[..., 0]
    return ((near.gather(1, flat) * valid).sum() / valid.sum()).item()


def main():
    torch.manual_seed(18)
    pick = random.Random(4)
    device = torch_xla.device()
    images, boxes, valid = make_images(96, seed=18)
    val = [t.to(device) for t in make_images(16, seed=99)]

    model = CenterDetector().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 8) * (1.0 - 0.8 * s / STEPS))
    torch_xla.sync()

    side = BASE
    for step in range(STEPS):
        if step % SWITCH == 0:
            side = pick.choice(SCALES)
        idx = torch.randint(0, len(images), (BATCH,))
        x = images[idx]
        if side != BASE:
            x = F.interpolate(x, size=(side, side), mode="bilinear", align_corners=False)
        x, b, v = x.to(device), boxes[idx].to(device), valid[idx].to(device)

        heat, size = model(x)
        loss = detection_loss(heat, size, b, v)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()

        if step % 10 == 9:
            r = peak_recall(model, *val)
            xm.master_print(f"step {step + 1:2d}  side {side}  loss {loss.item():.3f}  recall {r:.3f}")


if __name__ == "__main__":
    main()
