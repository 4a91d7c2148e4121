import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_CLASSES = 4          # 0 is background
GRID = 6
ANCHORS_PER_CELL = 2
NUM_ANCHORS = GRID * GRID * ANCHORS_PER_CELL
NEG_POS_RATIO = 3


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(4, cout), nn.ReLU())


class TinySSD(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.backbone = nn.Sequential(conv(3, width, 2), conv(width, width), conv(width, 2 * width, 2))
        self.cls_head = nn.Conv2d(2 * width, ANCHORS_PER_CELL * NUM_CLASSES, 3, padding=1)
        self.box_head = nn.Conv2d(2 * width, ANCHORS_PER_CELL * 4, 3, padding=1)

    def forward(self, images):
        f = self.backbone(images)
        b = f.shape[0]
        cls = self.cls_head(f).permute(0, 2, 3, 1).reshape(b, NUM_ANCHORS, NUM_CLASSES)
        box = self.box_head(f).permute(0, 2, 3, 1).reshape(b, NUM_ANCHORS, 4)
        return cls, box


def make_scene(rng, batch_size=4):
    """images, anchor labels, box deltas. Every image has a few objects."""
    images = rng.normal(0, 1, (batch_size, 3, 24, 24)).astype(np.float32)
    labels = np.zeros((batch_size, NUM_ANCHORS), dtype=np.int64)
    deltas = np.zeros((batch_size, NUM_ANCHORS, 4), dtype=np.float32)
    for i in range(batch_size):
        n_obj = rng.integers(1, 5)
        where = rng.choice(NUM_ANCHORS, size=n_obj, replace=False)
        labels[i, where] = rng.integers(1, NUM_CLASSES, size=n_obj)
        deltas[i, where] = rng.normal(0, 0.3, (n_obj, 4))
    return images, labels, deltas


def multibox_loss(cls_logits, box_pred, labels, deltas, n_pos):
    pos = labels > 0
    ce = F.cross_entropy(cls_logits.reshape(-1, NUM_CLASSES), labels.reshape(-1), reduction="none")
    pos_flat = pos.reshape(-1)

    # hardest negatives of the batch
    k = min(NEG_POS_RATIO * n_pos, ce.numel() - n_pos)
    neg_scores = ce.masked_fill(pos_flat, 0.0)
    hard_neg, _ = neg_scores.topk(k)

    cls_loss = (ce * pos_flat).sum() + hard_neg.sum()
    box_loss = (F.smooth_l1_loss(box_pred, deltas, reduction="none").sum(-1) * pos).sum()
    denom = pos_flat.sum().clamp(min=1)
    return cls_loss / denom, box_loss / denom


def train(num_steps=5, lr=0.02):
    rng = np.random.default_rng(7)
    torch.manual_seed(7)
    dev = torch_xla.device()
    net = TinySSD().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=lr, weight_decay=5e-4)
    xm.mark_step()

    for it in range(num_steps):
        images, labels, deltas = make_scene(rng)
        n_pos = int((labels > 0).sum())

        images = torch.from_numpy(images).to(dev)
        labels = torch.from_numpy(labels).to(dev)
        deltas = torch.from_numpy(deltas).to(dev)

        cls_logits, box_pred = net(images)
        cls_loss, box_loss = multibox_loss(cls_logits, box_pred, labels, deltas, n_pos)
        total = cls_loss + 1.5 * box_loss

        opt.zero_grad()
        total.backward()
        opt.step()
        xm.mark_step()
        print("iter", it, "positives", n_pos, "cls", round(cls_loss.item(), 3), "box", round(box_loss.item(), 3))


if __name__ == "__main__":
    train()
