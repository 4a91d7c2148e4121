"""Single-shot detector on synthetic boxes."""
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_CLASSES = 3
GRID = (8, 4)
NEG_POS_RATIO = 3


def anchors():
    out = []
    for n in GRID:
        c = (torch.arange(n) + 0.5) / n
        cy, cx = torch.meshgrid(c, c, indexing="ij")
        wh = torch.full((n * n, 2), 1.5 / n)
        out.append(torch.cat([torch.stack([cx.flatten(), cy.flatten()], 1), wh], 1))
    return torch.cat(out)


def to_corners(b):
    return torch.cat([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], 1)


def iou(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    area = lambda x: (x[:, 2:] - x[:, :2]).prod(1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def assign(anc, boxes, labels, thr=0.4):
    m = iou(to_corners(anc), to_corners(boxes))
    best, idx = m.max(1)
    cls = torch.where(best > thr, labels[idx] + 1, torch.zeros_like(idx))
    g = boxes[idx]
    reg = torch.cat([(g[:, :2] - anc[:, :2]) / anc[:, 2:], torch.log(g[:, 2:] / anc[:, 2:])], 1)
    return cls, reg


class SSD(nn.Module):
    def __init__(self):
        super().__init__()
        def unit(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.SiLU())
        self.stem = nn.Sequential(unit(3, 8, 2), unit(8, 16, 2))
        self.extra = unit(16, 24, 2)
        self.cls = nn.ModuleList([nn.Conv2d(c, NUM_CLASSES + 1, 3, 1, 1) for c in (16, 24)])
        self.reg = nn.ModuleList([nn.Conv2d(c, 4, 3, 1, 1) for c in (16, 24)])

    def forward(self, x):
        f1 = self.stem(x)
        feats = [f1, self.extra(f1)]
        flat = lambda y: y.flatten(2).transpose(1, 2)
        cls = torch.cat([flat(h(f)) for h, f in zip(self.cls, feats)], 1)
        reg = torch.cat([flat(h(f)) for h, f in zip(self.reg, feats)], 1)
        return cls, reg


def multibox_loss(cls, reg, t_cls, t_reg, num_pos):
    ce = F.cross_entropy(cls.flatten(0, 1), t_cls.flatten(), reduction="none")
    pos = t_cls.flatten() > 0
    num_neg = min(NEG_POS_RATIO * num_pos, ce.numel() - num_pos)
    hardest = ce.masked_fill(pos, 0.0).topk(num_neg).values
    l_cls = (ce * pos).sum() + hardest.sum()
    l_reg = (F.smooth_l1_loss(reg, t_reg, reduction="none").sum(-1).flatten() * pos).sum()
    return (l_cls + l_reg) / max(num_pos, 1)


def sample(gen, anc, n):
    imgs, cs, rs = torch.randn(n, 3, 32, 32, generator=gen) * 0.1, [], []
    for i in range(n):
        k = int(torch.randint(1, 4, (1,), generator=gen))
        boxes = torch.rand(k, 4, generator=gen) * 0.4 + torch.tensor([0.3, 0.3, 0.15, 0.15])
        labels = torch.randint(0, NUM_CLASSES, (k,), generator=gen)
        for b, l in zip((to_corners(boxes) * 32).clamp(0, 32).long().tolist(), labels.tolist()):
            imgs[i, l, b[1]:b[3], b[0]:b[2]] += 1.0
        c, r = assign(anc, boxes, labels)
        cs.append(c)
        rs.append(r)
    return imgs, torch.stack(cs), torch.stack(rs)


def main(steps=14, batch=4):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(9)
    dev, anc = torch_xla.device(), anchors()
    net = SSD().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=5e-3, momentum=0.9, nesterov=True)
    for it in range(steps):
        img, tc, tr = sample(gen, anc, batch)
        num_pos = int((tc > 0).sum())
        cls, reg = net(img.to(dev))
        loss = multibox_loss(cls, reg, tc.to(dev), tr.to(dev), num_pos)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        xm.mark_step()
        if it % 4 == 0:
            print(it, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
