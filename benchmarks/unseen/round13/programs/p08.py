"""Single-stage anchor detector on rendered rectangles."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


@dataclass
class DetConfig:
    image: int = 32
    stride: int = 4
    classes: int = 3
    batch: int = 4
    max_boxes: int = 6
    images: int = 72
    lr: float = 2e-3


class Detector(nn.Module):
    def __init__(self, cfg, width=12):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width * 2, 3, 2, 1), nn.BatchNorm2d(width * 2), nn.ReLU(),
        )
        self.cls_head = nn.Sequential(nn.Conv2d(width * 2, width, 3, padding=1), nn.ReLU(),
                                      nn.Conv2d(width, cfg.classes + 1, 1))
        self.box_head = nn.Sequential(nn.Conv2d(width * 2, width, 3, padding=1), nn.ReLU(),
                                      nn.Conv2d(width, 4, 1))

    def forward(self, x):
        f = self.backbone(x)
        cls = self.cls_head(f).flatten(2).transpose(1, 2)
        box = self.box_head(f).flatten(2).transpose(1, 2)
        return cls, box


class Rectangles(torch.utils.data.Dataset):
    def __init__(self, cfg, seed):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(seed)
        self.samples = [self._render() for _ in range(cfg.images)]

    def _render(self):
        cfg, g = self.cfg, self.gen
        cells = cfg.image // cfg.stride
        img = 0.1 * torch.randn(3, cfg.image, cfg.image, generator=g)
        labels = torch.zeros(cells, cells, dtype=torch.long)
        boxes = torch.zeros(cells, cells, 4)
        for _ in range(int(torch.randint(1, cfg.max_boxes + 1, (1,), generator=g))):
            w, h = (torch.randint(5, 14, (2,), generator=g)).tolist()
            x0 = int(torch.randint(0, cfg.image - w, (1,), generator=g))
            y0 = int(torch.randint(0, cfg.image - h, (1,), generator=g))
            c = int(torch.randint(0, cfg.classes, (1,), generator=g))
            img[c, y0:y0 + h, x0:x0 + w] += 1.0
            cy, cx = (y0 + h // 2) // cfg.stride, (x0 + w // 2) // cfg.stride
            labels[cy, cx] = c + 1
            boxes[cy, cx] = torch.tensor([x0, y0, x0 + w, y0 + h]) / cfg.image
        return img, labels.flatten(), boxes.flatten(0, 1)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


def detection_loss(cls, box, labels, boxes):
    fg = labels > 0
    weight = torch.ones(cls.shape[-1], device=cls.device)
    weight[0] = 0.2
    cls_loss = F.cross_entropy(cls.flatten(0, 1), labels.flatten(), weight=weight)
    box_loss = F.smooth_l1_loss(box[fg].sigmoid(), boxes[fg], beta=0.1)
    return cls_loss, box_loss


def train_one_epoch(model, optimizer, loader, step):
    model.train()
    for img, labels, boxes in loader:
        cls, box = model(img)
        cls_loss, box_loss = detection_loss(cls, box, labels, boxes)
        loss = cls_loss + 2.0 * box_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            xm.add_step_closure(
                lambda s, c, b: print(f"step {s} cls {c.item():.4f} box {b.item():.4f}"),
                args=(step, cls_loss, box_loss))
        step += 1
    return step


def main():
    cfg = DetConfig()
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector(cfg).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
    host = torch.utils.data.DataLoader(Rectangles(cfg, seed=9), batch_size=cfg.batch,
                                       shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(host, device)
    step = 0
    for epoch in range(1):
        step = train_one_epoch(model, optimizer, loader, step)
    print("trained", step, "steps")


if __name__ == "__main__":
    main()
