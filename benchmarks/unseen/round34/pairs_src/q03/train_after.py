"""Anchor-free detector on small drone crops; two pyramid levels, bf16 autocast on XLA."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES, STRIDES, SIZE, BS = 4, (4, 8), 32, 4


def conv_bn(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def up2(x):
    b, c, h, w = x.shape
    return x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2).reshape(b, c, 2 * h, 2 * w)


class Backbone(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.stem = conv_bn(3, c, 2)
        self.c4 = conv_bn(c, 2 * c, 2)
        self.c8 = conv_bn(2 * c, 2 * c, 2)

    def forward(self, x):
        p4 = self.c4(self.stem(x))
        p8 = self.c8(p4)
        return [p4 + up2(p8), p8]


class Head(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.cls = nn.Conv2d(c, CLASSES, 3, padding=1)
        self.reg = nn.Conv2d(c, 5, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(len(STRIDES)))
        nn.init.constant_(self.cls.bias, -4.6)

    def forward(self, feats):
        cls, box, ctr = [], [], []
        for i, f in enumerate(feats):
            t = self.tower(f)
            r = self.reg(t)
            cls.append(self.cls(t).flatten(2).transpose(1, 2))
            d = (r[:, :4] * self.scales[i]).clamp(max=4.0).exp() * STRIDES[i]
            box.append(d.flatten(2).transpose(1, 2))
            ctr.append(r[:, 4:].flatten(2).transpose(1, 2))
        return torch.cat(cls, 1), torch.cat(box, 1), torch.cat(ctr, 1)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Backbone(), Head()

    def forward(self, x):
        return self.head(self.backbone(x))


def focal(logits, target, alpha=0.25, gamma=2.0):
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    w = alpha * target + (1 - alpha) * (1 - target)
    return w * (1 - pt).pow(gamma) * ce


def giou(p, t):
    """p, t: distances (l, t, r, b) from the same location."""
    ap = (p[..., 0] + p[..., 2]) * (p[..., 1] + p[..., 3])
    at = (t[..., 0] + t[..., 2]) * (t[..., 1] + t[..., 3])
    lo, hi = torch.minimum(p, t), torch.maximum(p, t)
    inter = (lo[..., 0] + lo[..., 2]) * (lo[..., 1] + lo[..., 3])
    hull = (hi[..., 0] + hi[..., 2]) * (hi[..., 1] + hi[..., 3])
    union = ap + at - inter
    return inter / union.clamp(min=1e-6) - (hull - union) / hull.clamp(min=1e-6)


def losses(cls, box, ctr, tgt):
    pos = tgt["pos"]
    num_pos = pos.sum(1).clamp(min=1.0)
    l_cls = (focal(cls, tgt["onehot"]).sum((1, 2)) / num_pos).mean()
    w = tgt["ctr"] * pos
    l_box = ((1 - giou(box.float(), tgt["dist"])) * w).sum() / w.sum().clamp(min=1e-3)
    bce = F.binary_cross_entropy_with_logits(ctr.squeeze(-1).float(), tgt["ctr"], reduction="none")
    l_ctr = ((bce * pos).sum(1) / num_pos).mean()
    return l_cls + 2.0 * l_box + l_ctr


def locations():
    pts = []
    for s in STRIDES:
        g = (np.arange(SIZE // s) + 0.5) * s
        yy, xx = np.meshgrid(g, g, indexing="ij")
        pts.append(np.stack([xx.ravel(), yy.ravel()], 1))
    return np.concatenate(pts).astype(np.float32)


def batch(rng):
    pts = locations()
    n = len(pts)
    out = {k: [] for k in ("pos", "onehot", "dist", "ctr")}
    img = rng.rand(BS, 3, SIZE, SIZE).astype(np.float32)
    for b in range(BS):
        x0, y0 = rng.uniform(0, 16, 2)
        x1, y1 = x0 + rng.uniform(6, 15), y0 + rng.uniform(6, 15)
        d = np.stack([pts[:, 0] - x0, pts[:, 1] - y0, x1 - pts[:, 0], y1 - pts[:, 1]], 1)
        pos = (d.min(1) > 0).astype(np.float32)
        oh = np.zeros((n, CLASSES), np.float32)
        oh[pos > 0, rng.randint(CLASSES)] = 1
        d = np.clip(d, 0.1, None)
        c = np.sqrt(np.minimum(d[:, 0], d[:, 2]) / np.maximum(d[:, 0], d[:, 2])
                    * np.minimum(d[:, 1], d[:, 3]) / np.maximum(d[:, 1], d[:, 3]))
        for k, v in (("pos", pos), ("onehot", oh), ("dist", d), ("ctr", c * pos)):
            out[k].append(v.astype(np.float32))
    return torch.from_numpy(img), {k: torch.from_numpy(np.stack(v)) for k, v in out.items()}


def main(steps=4):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = Detector().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    rng = np.random.RandomState(0)
    for s in range(steps):
        img, tgt = batch(rng)
        img, tgt = img.to(dev), {k: v.to(dev) for k, v in tgt.items()}
        with torch.autocast("xla", dtype=torch.bfloat16):
            cls, box, ctr = model(img)
            loss = losses(cls, box, ctr, tgt)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(s, loss.item())


if __name__ == "__main__":
    main()
