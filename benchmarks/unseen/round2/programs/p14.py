import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def box_iou(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda t: (t[:, 2:] - t[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def anchors(grid=4):
    c = (torch.arange(grid) + 0.5) / grid
    cy, cx = torch.meshgrid(c, c, indexing="ij")
    centre = torch.stack([cx, cy], -1).view(-1, 2)
    return torch.cat([centre - 0.2, centre + 0.2], 1)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 3, stride=2, padding=1))

    def forward(self, x):
        return self.net(x).flatten(2).transpose(1, 2)


def detection_loss(pred, boxes_per_image, anchor):
    total = 0.0
    for p, boxes in zip(pred, boxes_per_image):
        best, which = box_iou(anchor, boxes).max(1)
        hit = (best > 0.2).float()
        total = total + F.binary_cross_entropy_with_logits(p[:, 0], hit)
        total = total + ((p[:, 1:] - (boxes[which] - anchor)).abs().sum(1) * hit).sum() / hit.sum().clamp(min=1)
    return total / len(boxes_per_image)


def scene(gen):
    n = int(torch.randint(1, 6, (1,), generator=gen))
    c = torch.rand(n, 2, generator=gen) * 0.6 + 0.2
    return torch.rand(3, 16, 16, generator=gen), torch.cat([c - 0.15, c + 0.15], 1)


gen = torch.Generator().manual_seed(3)
torch.manual_seed(3)
device = xm.xla_device()
model, anchor = Detector().to(device), anchors().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(10):
    images, boxes = zip(*(scene(gen) for _ in range(2)))
    loss = detection_loss(model(torch.stack(images).to(device)), [b.to(device) for b in boxes], anchor)
    optimizer.zero_grad()
    loss.backward()
    xm.optimizer_step(optimizer)
    xm.mark_step()
    print(step, [len(b) for b in boxes], f"{loss.item():.3f}")
