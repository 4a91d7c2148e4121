"""Anchor-free detector (FCOS style, one level) for drone imagery, PyTorch/XLA."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = {
    "classes": 3,
    "stride": 4,
    "size": 32,
    "batch": 2,
    "width": 8,
    "head": {"convs": 1, "norm": "bn"},
    "loss": {"alpha": 0.25, "gamma": 2.0, "box_weight": 1.0},
    "optim": {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4},
}


def make_norm(kind, channels):
    if kind == "gn":
        return nn.GroupNorm(4, channels)
    return nn.BatchNorm2d(channels)


class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False),
                                  nn.BatchNorm2d(width), nn.ReLU())
        self.stage = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
                                   nn.BatchNorm2d(2 * width), nn.ReLU())
        self.lateral = nn.Conv2d(2 * width, 2 * width, 1)

    def forward(self, x):
        return self.lateral(self.stage(self.stem(x)))


class Head(nn.Module):
    def __init__(self, channels, classes, convs, norm):
        super().__init__()

        def tower():
            layers = []
            for _ in range(convs):
                layers += [nn.Conv2d(channels, channels, 3, padding=1), make_norm(norm, channels), nn.ReLU()]
            return nn.Sequential(*layers)

        self.cls_tower, self.box_tower = tower(), tower()
        self.cls = nn.Conv2d(channels, classes, 3, padding=1)
        self.box = nn.Conv2d(channels, 4, 3, padding=1)
        self.ctr = nn.Conv2d(channels, 1, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(()))
        nn.init.constant_(self.cls.bias, -np.log(99.0))

    def forward(self, x):
        b = self.box_tower(x)
        cls = self.cls(self.cls_tower(x)).flatten(2).transpose(1, 2)
        box = F.softplus(self.box(b) * self.scale).flatten(2).transpose(1, 2)
        ctr = self.ctr(b).flatten(1)
        return cls, box, ctr


class Detector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = Backbone(cfg["width"])
        self.head = Head(2 * cfg["width"], cfg["classes"], **cfg["head"])

    def forward(self, images):
        return self.head(self.backbone(images))


def focal_loss(logits, target, alpha, gamma):
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * (1 - pt) ** gamma * ce).sum()


def box_loss(pred, target):
    """pred, target: distances (l, t, r, b) from the location, in strides."""
    area_p = (pred[..., 0] + pred[..., 2]) * (pred[..., 1] + pred[..., 3])
    area_t = (target[..., 0] + target[..., 2]) * (target[..., 1] + target[..., 3])
    low = torch.minimum(pred, target)
    inter = (low[..., 0] + low[..., 2]) * (low[..., 1] + low[..., 3])
    union = area_p + area_t - inter
    iou = (inter + 1.0) / (union + 1.0)
    return -iou.log()


def criterion(outputs, targets, cfg):
    cls, box, ctr = outputs
    labels, boxes, centerness, positive = targets
    num_pos = positive.sum().clamp(min=1.0)
    loss_cls = focal_loss(cls, labels, cfg["alpha"], cfg["gamma"]) / num_pos
    weight = centerness * positive
    loss_box = (box_loss(box, boxes) * weight).sum() / weight.sum().clamp(min=1e-6)
    bce = F.binary_cross_entropy_with_logits(ctr, centerness, reduction="none")
    loss_ctr = (bce * positive).sum() / num_pos
    return loss_cls + cfg["box_weight"] * loss_box + loss_ctr


def assign(boxes, classes, cfg):
    """Dense targets on the host: every location inside a box takes the smallest one."""
    n = cfg["size"] // cfg["stride"]
    centers = (np.arange(n) + 0.5) * cfg["stride"]
    y, x = [c.reshape(-1) for c in np.meshgrid(centers, centers, indexing="ij")]
    ltrb = np.stack([x[:, None] - boxes[:, 0], y[:, None] - boxes[:, 1],
                     boxes[:, 2] - x[:, None], boxes[:, 3] - y[:, None]], -1)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    cost = np.where(ltrb.min(-1) > 0, area[None], np.inf)
    best = cost.argmin(1)
    pos = np.isfinite(cost.min(1))
    reg = np.where(pos[:, None], ltrb[np.arange(n * n), best], 1.0) / cfg["stride"]
    lr, tb = reg[:, 0::2], reg[:, 1::2]
    ctr = np.sqrt(lr.min(1) / lr.max(1) * tb.min(1) / tb.max(1)) * pos
    onehot = np.zeros((n * n, cfg["classes"]))
    onehot[np.nonzero(pos)[0], classes[best][pos]] = 1.0
    return onehot, reg, ctr, pos


def drone_batches(cfg, steps, seed=4):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        images = rng.normal(size=(cfg["batch"], 3, cfg["size"], cfg["size"]))
        targets = []
        for _ in range(cfg["batch"]):
            m = rng.integers(1, 5)
            xy = rng.uniform(0, cfg["size"] - 12, (m, 2))
            boxes = np.concatenate([xy, xy + rng.uniform(6, 12, (m, 2))], 1)
            targets.append(assign(boxes, rng.integers(0, cfg["classes"], m), cfg))
        targets = [torch.from_numpy(np.stack(t).astype(np.float32)) for t in zip(*targets)]
        yield torch.from_numpy(images.astype(np.float32)), targets


def main(cfg=CFG, steps=4):
    torch.manual_seed(4)
    device = torch_xla.device()
    model = Detector(cfg).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), **cfg["optim"])
    torch_xla.sync()
    for step, (images, targets) in enumerate(drone_batches(cfg, steps)):
        images, targets = images.to(device), [t.to(device) for t in targets]
        optimizer.zero_grad()
        loss = criterion(model(images), targets, cfg["loss"])
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
