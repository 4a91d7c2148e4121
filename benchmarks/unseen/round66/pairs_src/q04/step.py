"""Single-scale anchor detector for aerial vehicle chips."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

SIZE, STRIDE, CLASSES = 64, 8, 3


def make_anchors():
    c = (torch.arange(SIZE // STRIDE) + 0.5) * STRIDE
    cy, cx = torch.meshgrid(c, c, indexing="ij")
    boxes = []
    for w, h in ((10.0, 18.0), (18.0, 10.0)):
        boxes.append(torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], -1))
    return torch.stack(boxes, 2).reshape(-1, 4)


def box_iou(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def encode(anchors, gt):
    aw, ah = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
    gw, gh = gt[:, 2] - gt[:, 0], gt[:, 3] - gt[:, 1]
    dx = ((gt[:, 0] + gt[:, 2]) - (anchors[:, 0] + anchors[:, 2])) / (2 * aw)
    dy = ((gt[:, 1] + gt[:, 3]) - (anchors[:, 1] + anchors[:, 3])) / (2 * ah)
    return torch.stack([dx, dy, torch.log(gw / aw), torch.log(gh / ah)], 1)


class Detector(nn.Module):
    def __init__(self, per_cell=2):
        super().__init__()
        layers, cin = [], 3
        for width in (8, 12, 16):
            layers += [nn.Conv2d(cin, width, 3, stride=2, padding=1), nn.ReLU()]
            cin = width
        self.body = nn.Sequential(*layers)
        self.cls = nn.Conv2d(width, per_cell * (CLASSES + 1), 1)
        self.reg = nn.Conv2d(width, per_cell * 4, 1)

    def forward(self, x):
        f = self.body(x)
        b = x.shape[0]
        cls = self.cls(f).permute(0, 2, 3, 1).reshape(b, -1, CLASSES + 1)
        reg = self.reg(f).permute(0, 2, 3, 1).reshape(b, -1, 4)
        return cls, reg


class Criterion(nn.Module):
    def __init__(self, anchors):
        super().__init__()
        self.register_buffer("anchors", anchors)

    def forward(self, cls, reg, targets):
        total = 0.0
        for c, r, t in zip(cls, reg, targets):
            with torch.no_grad():
                best, idx = box_iou(self.anchors, t["boxes"]).max(dim=1)
                pos = best > 0.4
                label = torch.where(pos, t["labels"][idx] + 1, torch.zeros_like(idx))
                delta = encode(self.anchors, t["boxes"][idx])
            l_cls = F.cross_entropy(c, label, reduction="none", label_smoothing=0.05)
            l_reg = F.smooth_l1_loss(r, delta, reduction="none").sum(1) * pos
            n = pos.sum().clamp(min=1)
            total = total + (l_cls.mean() + l_reg.sum() / n)
        return total / len(targets)


class Chips(torch.utils.data.Dataset):
    def __init__(self, n=20, seed=5):
        self.rng = np.random.default_rng(seed)
        self.items = [self._make() for _ in range(n)]

    def _make(self):
        k = int(self.rng.integers(2, 9))
        wh = self.rng.uniform(8, 20, (k, 2))
        xy = self.rng.uniform(0, SIZE - 20, (k, 2))
        boxes = np.concatenate([xy, xy + wh], 1).astype(np.float32)
        labels = self.rng.integers(0, CLASSES, k)
        img = self.rng.standard_normal((3, SIZE, SIZE)).astype(np.float32)
        return torch.from_numpy(img), {"boxes": torch.from_numpy(boxes), "labels": torch.from_numpy(labels)}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    imgs, targets = zip(*batch)
    return torch.stack(imgs), list(targets)


def main():
    torch.manual_seed(0)
    dev = xm.xla_device()
    net = Detector().to(dev)
    crit = Criterion(make_anchors()).to(dev)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, alpha=0.9)
    loader = torch.utils.data.DataLoader(Chips(), batch_size=2, shuffle=False, collate_fn=collate)
    for i, (imgs, targets) in enumerate(loader):
        imgs = imgs.to(dev)
        targets = [{k: v.to(dev) for k, v in t.items()} for t in targets]
        opt.zero_grad()
        loss = crit(*net(imgs), targets)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.4f}", met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
