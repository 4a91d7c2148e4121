"""Single-level anchor-free detector on synthetic rectangles (FCOS flavoured)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = {
    "data": {"image": 32, "stride": 4, "classes": 3, "max_objects": 3, "batch": 4},
    "model": {"width": 12, "tower": 1},
    "loss": {"alpha": 0.25, "gamma_start": 0.5, "gamma_end": 2.0, "box_weight": 1.0},
    "optim": {"lr": 1e-2, "weight_decay": 1e-4, "clip": 5.0},
    "steps": 12,
    "ramp_steps": 8,
}


def make_batch(rng, data):
    size, stride, b = data["image"], data["stride"], data["batch"]
    g = size // stride
    img = 0.1 * rng.standard_normal((b, 3, size, size)).astype(np.float32)
    labels = np.full((b, g, g), -1, np.int64)
    ltrb = np.zeros((b, g, g, 4), np.float32)
    centres = (np.arange(g) + 0.5) * stride
    for i in range(b):
        for _ in range(rng.integers(1, data["max_objects"] + 1)):
            w, h = rng.integers(6, 16, 2)
            x0, y0 = rng.integers(0, size - w), rng.integers(0, size - h)
            c = rng.integers(0, data["classes"])
            img[i, c, y0:y0 + h, x0:x0 + w] += 1.0
            inx = (centres > x0) & (centres < x0 + w)
            iny = (centres > y0) & (centres < y0 + h)
            for yy in np.flatnonzero(iny):
                for xx in np.flatnonzero(inx):
                    labels[i, yy, xx] = c
                    ltrb[i, yy, xx] = (centres[xx] - x0, centres[yy] - y0, x0 + w - centres[xx], y0 + h - centres[yy])
    return torch.from_numpy(img), torch.from_numpy(labels), torch.from_numpy(ltrb / stride)


def conv_bn(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def build_model(model, classes):
    w = model["width"]
    net = nn.ModuleDict({
        "backbone": nn.Sequential(conv_bn(3, w, 2), conv_bn(w, 2 * w, 2)),
        "tower": nn.Sequential(*[conv_bn(2 * w, 2 * w) for _ in range(model["tower"])]),
        "cls": nn.Conv2d(2 * w, classes, 3, padding=1),
        "box": nn.Conv2d(2 * w, 4, 3, padding=1),
    })
    nn.init.constant_(net["cls"].bias, -2.0)
    return net


def forward(net, images):
    feats = net["tower"](net["backbone"](images))
    cls = net["cls"](feats).permute(0, 2, 3, 1)
    box = F.softplus(net["box"](feats)).permute(0, 2, 3, 1)
    return cls, box


def focal_loss(logits, target, alpha, gamma):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    alpha_t = alpha * target + (1 - alpha) * (1 - target)
    return alpha_t * (1 - p_t).clamp(min=1e-6) ** gamma * ce


def iou_loss(pred, target):
    overlap = torch.minimum(pred, target)
    inter = (overlap[:, 0] + overlap[:, 2]) * (overlap[:, 1] + overlap[:, 3])
    area = lambda t: (t[:, 0] + t[:, 2]) * (t[:, 1] + t[:, 3])
    iou = (inter + 1e-4) / (area(pred) + area(target) - inter + 1e-4)
    return -torch.log(iou)


def detection_loss(cls, box, labels, ltrb, gamma, cfg):
    pos = labels >= 0
    target = F.one_hot(labels.clamp(min=0), cls.shape[-1]).float() * pos.unsqueeze(-1)
    num_pos = pos.sum().clamp(min=1)
    loss_cls = focal_loss(cls, target, cfg["alpha"], gamma).sum() / num_pos
    loss_box = iou_loss(box[pos], ltrb[pos]).sum() / num_pos
    return loss_cls, cfg["box_weight"] * loss_box


def gamma_at(step, cfg):
    lo, hi = cfg["loss"]["gamma_start"], cfg["loss"]["gamma_end"]
    return lo + (hi - lo) * min(1.0, step / cfg["ramp_steps"])


def run(cfg):
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = torch_xla.device()
    net = build_model(cfg["model"], cfg["data"]["classes"]).to(device)
    optim = torch.optim.SGD(net.parameters(), lr=cfg["optim"]["lr"], momentum=0.9, weight_decay=cfg["optim"]["weight_decay"])
    for step in range(cfg["steps"]):
        images, labels, ltrb = (t.to(device) for t in make_batch(rng, cfg["data"]))
        cls, box = forward(net, images)
        loss_cls, loss_box = detection_loss(cls, box, labels, ltrb, gamma_at(step, cfg), cfg["loss"])
        optim.zero_grad()
        (loss_cls + loss_box).backward()
        nn.utils.clip_grad_norm_(net.parameters(), cfg["optim"]["clip"])
        optim.step()
        xm.mark_step()
        if step % 4 == 3:
            print(f"{step + 1:03d}/{cfg['steps']} cls {loss_cls.item():.3f} box {loss_box.item():.3f}")


if __name__ == "__main__":
    run(CFG)
