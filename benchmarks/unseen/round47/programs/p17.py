"""Single-shot detector for seismic events on one continuous trace: default windows, offsets, MultiBox loss."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TRACE = 256
STRIDES = (8, 16)
SCALES = {8: (12.0, 20.0), 16: (32.0, 48.0)}
CLASSES = 3  # background, earthquake, quarry blast


def default_windows():
    rows = []
    for stride in STRIDES:
        for c in np.arange(TRACE // stride) * stride + stride / 2:
            rows += [(c, w) for w in SCALES[stride]]
    return torch.tensor(rows, dtype=torch.float32)


def wavelet(kind, width):
    t = np.arange(width) / width
    if kind == 1:
        return np.exp(-3 * t) * np.sin(2 * np.pi * 6 * t)
    return np.exp(-((t - 0.4) / 0.2) ** 2) * np.sin(2 * np.pi * 10 * t)


def make_trace(rng):
    x = rng.normal(0, 0.25, TRACE)
    events, cursor = [], int(rng.integers(4, 40))
    while cursor < TRACE - 20:
        kind, width = int(rng.integers(1, CLASSES)), int(rng.integers(12, 50))
        width = min(width, TRACE - cursor)
        x[cursor:cursor + width] += rng.uniform(1.0, 2.0) * wavelet(kind, width)
        events.append((cursor + width / 2, width, kind))
        cursor += width + int(rng.integers(20, 120))
    return x.astype(np.float32), events


def match(events, anchors, threshold=0.45):
    """Host side assignment, targets have the fixed number of default windows."""
    a0, a1 = anchors[:, 0] - anchors[:, 1] / 2, anchors[:, 0] + anchors[:, 1] / 2
    cls = torch.zeros(len(anchors), dtype=torch.long)
    loc = torch.zeros(len(anchors), 2)
    for centre, width, kind in events:
        e0, e1 = centre - width / 2, centre + width / 2
        inter = (torch.clamp(a1, max=e1) - torch.clamp(a0, min=e0)).clamp(min=0)
        iou = inter / (anchors[:, 1] + width - inter)
        hit = iou >= threshold
        hit[iou.argmax()] = True
        cls[hit] = kind
        loc[hit, 0] = (centre - anchors[hit, 0]) / anchors[hit, 1]
        loc[hit, 1] = torch.log(width / anchors[hit, 1])
    return cls, loc


class TraceSSD(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        def down(i, o):
            return nn.Sequential(nn.Conv1d(i, o, 7, stride=2, padding=3), nn.SiLU())
        self.to8 = nn.Sequential(down(1, ch), down(ch, ch), down(ch, ch))
        self.to16 = down(ch, ch)
        k = len(SCALES[8])
        self.cls = nn.ModuleList([nn.Conv1d(ch, k * CLASSES, 3, padding=1) for _ in STRIDES])
        self.loc = nn.ModuleList([nn.Conv1d(ch, k * 2, 3, padding=1) for _ in STRIDES])

    def forward(self, x):
        f8 = self.to8(x.unsqueeze(1))
        feats = (f8, self.to16(f8))
        cls = torch.cat([m(f).transpose(1, 2).reshape(x.shape[0], -1, CLASSES) for m, f in zip(self.cls, feats)], 1)
        loc = torch.cat([m(f).transpose(1, 2).reshape(x.shape[0], -1, 2) for m, f in zip(self.loc, feats)], 1)
        return cls, loc


class MultiBoxLoss(nn.Module):
    def __init__(self, neg_ratio=3, loc_weight=1.0):
        super().__init__()
        self.neg_ratio = neg_ratio
        self.loc_weight = loc_weight

    def forward(self, cls_pred, loc_pred, cls_true, loc_true):
        positive = cls_true > 0
        num_pos = positive.sum()
        ce = F.cross_entropy(cls_pred.flatten(0, 1), cls_true.flatten(), reduction="none").view_as(cls_true)

        negatives = ce.masked_fill(positive, 0.0).flatten()
        num_neg = min(self.neg_ratio * int(num_pos), negatives.numel())
        hard = negatives.topk(num_neg).values

        conf_loss = (ce * positive).sum() + hard.sum()
        loc_loss = (F.smooth_l1_loss(loc_pred, loc_true, reduction="none").sum(-1) * positive).sum()
        n = num_pos.clamp(min=1)
        return conf_loss / n, self.loc_weight * loc_loss / n


def main(steps=20, batch=6):
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    device = torch_xla.device()
    anchors = default_windows()

    model = TraceSSD().to(device)
    criterion = MultiBoxLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.05, total_steps=steps, cycle_momentum=False)

    for step in range(1, steps + 1):
        traces, targets = zip(*[make_trace(rng) for _ in range(batch)])
        cls_true, loc_true = map(torch.stack, zip(*[match(ev, anchors) for ev in targets]))
        x = torch.from_numpy(np.stack(traces)).to(device)
        cls_true, loc_true = cls_true.to(device), loc_true.to(device)

        cls_pred, loc_pred = model(x)
        conf_loss, loc_loss = criterion(cls_pred, loc_pred, cls_true, loc_true)
        loss = conf_loss + loc_loss
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        sched.step()
        torch_xla.sync()

        if step % 5 == 0:
            xm.master_print(f"step {step:3d} conf {conf_loss.item():.4f} loc {loc_loss.item():.4f} "
                            f"lr {sched.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
