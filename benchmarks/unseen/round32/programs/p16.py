"""Road segmentation on synthetic aerial tiles, multi-scale training.

Scale and learning rate follow a fixed plan; the auxiliary head is dropped for the second part of
the training, validation runs at full resolution.
"""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

TILE = 32
SCALES = (16, 24, 32)
STEPS = 48
AUX_UNTIL = 24
VALIDATE_EVERY = 12


class Tiles(Dataset):
    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(TILE), torch.arange(TILE), indexing="ij")
        self.images, self.masks = [], []
        for _ in range(n):
            a, b, c = (torch.rand(3, generator=gen) * 2 - 1).tolist()
            dist = (a * (xx - TILE / 2) + b * (yy - TILE / 2) + 6 * c).abs()
            mask = (dist / (a * a + b * b + 1e-3) ** 0.5 < 2.5).long()
            image = torch.randn(3, TILE, TILE, generator=gen) * 0.3
            image[:2] += mask * 0.8
            self.images.append(image)
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class MultiScaleCollate:
    """Resizes on the host; one size for a whole batch."""

    def __init__(self, sizes):
        self.sizes = itertools.cycle(sizes)

    def __call__(self, samples):
        image = torch.stack([s[0] for s in samples])
        mask = torch.stack([s[1] for s in samples])
        size = next(self.sizes)
        if size != TILE:
            image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False)
            mask = F.interpolate(mask[:, None].float(), size=(size, size))[:, 0].long()
        return image, mask


class SegNet(nn.Module):
    def __init__(self, w=8, classes=2):
        super().__init__()
        self.down1 = nn.Conv2d(3, w, 3, padding=1)
        self.down2 = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.head = nn.Conv2d(2 * w, classes, 1)
        self.aux = nn.Conv2d(2 * w, classes, 1)

    def forward(self, x, with_aux=False):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(a))
        out = self.head(torch.cat([a, self.up(b)], dim=1))
        return (out, self.aux(b)) if with_aux else out


def segmentation_loss(logits, mask):
    ce = F.cross_entropy(logits, mask)
    prob = logits.softmax(1)[:, 1]
    m = mask.float()
    dice = 1 - (2 * (prob * m).sum() + 1) / (prob.sum() + m.sum() + 1)
    return ce + dice


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    inter = torch.zeros((), device=device)
    union = torch.zeros((), device=device)
    for image, mask in loader:
        pred = model(image).argmax(1)
        inter += ((pred == 1) & (mask == 1)).sum()
        union += ((pred == 1) | (mask == 1)).sum()
    torch_xla.sync()
    model.train()
    return (inter / union.clamp(min=1)).item()


def endless(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(16)
    device = torch_xla.device()
    train = DataLoader(
        Tiles(96, 1), batch_size=8, shuffle=True, drop_last=True,
        collate_fn=MultiScaleCollate(SCALES),
    )
    val = MpDeviceLoader(DataLoader(Tiles(20, 2), batch_size=8), device)

    model = SegNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, STEPS, power=0.9)

    for step, (image, mask) in enumerate(itertools.islice(endless(train), STEPS)):
        image, mask = image.to(device), mask.to(device)
        optimizer.zero_grad()
        if step < AUX_UNTIL:
            logits, aux = model(image, with_aux=True)
            coarse = F.max_pool2d(mask[:, None].float(), 2)[:, 0].long()
            loss = segmentation_loss(logits, mask) + 0.4 * F.cross_entropy(aux, coarse)
        else:
            loss = segmentation_loss(model(image), mask)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        schedule.step()

        if (step + 1) % VALIDATE_EVERY == 0:
            iou = validate(model, val, device)
            print(f"step {step + 1:3d}  loss {loss.item():.3f}  road IoU {iou:.3f}")


if __name__ == "__main__":
    main()
