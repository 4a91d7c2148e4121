"""Anchor-free toy detector: one object per cell at most, 4x4 grid."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HYP = dict(
    epochs=3, steps_per_epoch=2, no_aug_epochs=1, batch=4, img=32, grid=4, classes=3,
    lr=0.02, momentum=0.9, wd=5e-4, box_gain=5.0,
)


class ConvBN(nn.Sequential):
    def __init__(self, cin, cout, stride):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03),
            nn.SiLU(),
        )


class Detector(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.backbone = nn.Sequential(ConvBN(3, 6, 2), ConvBN(6, 8, 2), ConvBN(8, 12, 2))
        self.box = nn.Conv2d(12, 4, 1)
        self.obj = nn.Conv2d(12, 1, 1)
        self.cls = nn.Conv2d(12, num_classes, 1)
        self.use_l1 = False

    def forward(self, x):
        f = self.backbone(x)
        pred = torch.cat([self.box(f), self.obj(f), self.cls(f)], dim=1)
        return pred.flatten(2).transpose(1, 2)

    def losses(self, pred, tgt):
        raw, obj, cls = pred[..., :4], pred[..., 4], pred[..., 5:]
        fg = tgt["fg"]
        n = fg.sum().clamp(min=1.0)
        xy = raw[..., :2].sigmoid()
        wh = raw[..., 2:].clamp(max=4.0).exp()
        iou = box_iou(torch.cat([xy, wh], -1), tgt["box"])
        out = {
            "iou": HYP["box_gain"] * ((1 - iou ** 2) * fg).sum() / n,
            "obj": F.binary_cross_entropy_with_logits(obj, fg, reduction="sum") / n,
            "cls": (F.binary_cross_entropy_with_logits(cls, tgt["cls"], reduction="none").sum(-1) * fg).sum() / n,
        }
        if self.use_l1:
            out["l1"] = ((raw - tgt["raw"]).abs().sum(-1) * fg).sum() / n
        return out


def box_iou(a, b):
    lt = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    rb = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    inter = (rb - lt).clamp(min=0).prod(-1)
    union = a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inter
    return inter / (union + 1e-7)


def fake_batch(gen):
    b, g, c = HYP["batch"], HYP["grid"] ** 2, HYP["classes"]
    img = torch.rand(b, 3, HYP["img"], HYP["img"], generator=gen)
    fg = (torch.rand(b, g, generator=gen) < 0.25).float()
    xy = torch.rand(b, g, 2, generator=gen) * 0.8 + 0.1
    wh = torch.rand(b, g, 2, generator=gen) + 0.3
    label = F.one_hot(torch.randint(0, c, (b, g), generator=gen), c).float()
    raw = torch.cat([torch.logit(xy), wh.log()], -1)
    return img, {"fg": fg, "box": torch.cat([xy, wh], -1), "cls": label, "raw": raw}


def lock(module):
    for p in module.parameters():
        p.requires_grad_(False)


def main():
    torch.manual_seed(2024)
    gen = torch.Generator().manual_seed(1)
    device = xm.xla_device()
    model = Detector(HYP["classes"]).to(device)
    opt = torch.optim.SGD(
        model.parameters(), lr=HYP["lr"], momentum=HYP["momentum"], weight_decay=HYP["wd"], nesterov=True
    )
    for epoch in range(HYP["epochs"]):
        model.train()
        if epoch >= HYP["epochs"] - HYP["no_aug_epochs"]:
            model.use_l1 = True
            lock(model.backbone[0])
        for it in range(HYP["steps_per_epoch"]):
            img, tgt = fake_batch(gen)
            img = img.to(device)
            tgt = {k: v.to(device) for k, v in tgt.items()}
            terms = model.losses(model(img), tgt)
            total = sum(terms.values())
            opt.zero_grad()
            total.backward()
            xm.optimizer_step(opt, barrier=True)
            print(f"epoch {epoch} it {it} total {total.item():.4f}")


if __name__ == "__main__":
    main()
