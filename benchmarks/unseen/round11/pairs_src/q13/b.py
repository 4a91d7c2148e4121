"""Two-stage toy detector head: class scores + box deltas on a fixed anchor grid."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OPTIM = dict(type="SGD", lr=0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)


def conv_gn(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(4, cout), nn.ReLU())


class Detector(nn.Module):
    def __init__(self, num_anchors=3, num_classes=4, width=16):
        super().__init__()
        self.stages = nn.Sequential(conv_gn(3, width, 2), conv_gn(width, width, 2))
        self.cls_tower = conv_gn(width, width)
        self.box_tower = conv_gn(width, width)
        self.cls = nn.Conv2d(width, num_anchors * num_classes, 3, 1, 1)
        self.box = nn.Conv2d(width, num_anchors * 4, 3, 1, 1)
        self.num_classes = num_classes

    def forward(self, x):
        f = self.stages(x)
        n = x.size(0)
        cls = self.cls(self.cls_tower(f)).permute(0, 2, 3, 1).reshape(n, -1, self.num_classes)
        box = self.box(self.box_tower(f)).permute(0, 2, 3, 1).reshape(n, -1, 4)
        return cls, box


def focal_loss(logits, target, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    a_t = alpha * target + (1 - alpha) * (1 - target)
    return (a_t * (1 - p_t) ** gamma * ce).sum()


def criterion(cls, box, cls_t, box_t):
    pos = cls_t.amax(-1)
    norm = pos.sum().clamp(min=1.0)
    l_cls = focal_loss(cls, cls_t) / norm
    l_box = (F.smooth_l1_loss(box, box_t, reduction="none").sum(-1) * pos).sum() / norm
    return l_cls + l_box


def build_optimizer(model, cfg):
    cfg = dict(cfg)
    return getattr(torch.optim, cfg.pop("type"))(model.parameters(), **cfg)


def fake_batch(bs=4, anchors=3 * 16):
    img = torch.rand(bs, 3, 16, 16)
    cls_t = F.one_hot(torch.randint(0, 4, (bs, anchors)), 4).float() * (torch.rand(bs, anchors, 1) > 0.8)
    return img, cls_t, torch.randn(bs, anchors, 4)


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    model = Detector().to(device)
    optimizer = build_optimizer(model, OPTIM)
    for it in range(5):
        img, cls_t, box_t = (t.to(device) for t in fake_batch())
        cls, box = model(img)
        loss = criterion(cls, box, cls_t, box_t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if it % 2 == 0:
            print(f"iter {it} loss {loss.item():.3f}")


main()
