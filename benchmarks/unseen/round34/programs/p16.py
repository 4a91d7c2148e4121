"""Street-scene segmentation, cross entropy plus Lovasz-Softmax, rare classes included."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CLASSES = ("road", "building", "car", "person", "sign", "bicycle")
SIZE = 16
BATCH = 4
EPOCHS = 1


class Scenes(Dataset):
    """Rectangles on a ground plane; the later classes are seldom there."""

    prob = (1.0, 0.9, 0.5, 0.18, 0.15, 0.1)

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = [self.draw(rng) for _ in range(n)]

    def draw(self, rng):
        mask = np.zeros((SIZE, SIZE), dtype=np.int64)
        for c in range(1, len(CLASSES)):
            if rng.uniform() < self.prob[c]:
                y, x = rng.integers(0, SIZE - 6, 2)
                h, w = rng.integers(3, 7, 2)
                mask[y:y + h, x:x + w] = c
        palette = np.linspace(-1, 1, len(CLASSES))
        img = np.stack([palette[mask], np.cos(3 * palette[mask]), palette[mask] ** 2])
        return (img + 0.3 * rng.normal(size=img.shape)).astype(np.float32), mask

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = self.items[i]
        return torch.from_numpy(img), torch.from_numpy(mask)


def conv_block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False), nn.GroupNorm(4, cout), nn.ReLU())


class UNetish(nn.Module):
    def __init__(self, w=8, n_out=len(CLASSES)):
        super().__init__()
        self.stem = conv_block(3, w)
        self.down = conv_block(w, 2 * w, stride=2)
        self.mid = conv_block(2 * w, 2 * w)
        self.fuse = conv_block(3 * w, w)
        self.head = nn.Conv2d(w, n_out, 1)

    def forward(self, x):
        a = self.stem(x)
        b = self.mid(self.down(a))
        b = F.interpolate(b, size=a.shape[-2:], mode="nearest")
        return self.head(self.fuse(torch.cat([a, b], dim=1)))


def lovasz_grad(gt_sorted):
    gts = gt_sorted.sum()
    intersection = gts - gt_sorted.cumsum(0)
    union = gts + (1.0 - gt_sorted).cumsum(0)
    jaccard = 1.0 - intersection / union
    return torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])


def lovasz_softmax(probas, labels, classes="present"):
    probas = probas.permute(0, 2, 3, 1).reshape(-1, probas.size(1))
    labels = labels.reshape(-1)
    losses = []
    for c in range(probas.size(1)):
        fg = (labels == c).float()
        if classes == "present" and fg.sum() == 0:
            continue
        errors = (fg - probas[:, c]).abs()
        errors_sorted, perm = torch.sort(errors, 0, descending=True)
        losses.append(torch.dot(errors_sorted, lovasz_grad(fg[perm])))
    return torch.stack(losses).mean()


class SegLoss(nn.Module):
    def __init__(self, lovasz_weight=0.75):
        super().__init__()
        self.lovasz_weight = lovasz_weight
        self.register_buffer("class_weight", torch.tensor([0.5, 0.8, 1.0, 1.5, 1.5, 2.0]))

    def forward(self, logits, labels):
        ce = F.cross_entropy(logits, labels, weight=self.class_weight)
        return ce + self.lovasz_weight * lovasz_softmax(logits.softmax(1), labels)


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = DataLoader(Scenes(96, seed=2), batch_size=BATCH, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = UNetish().to(device)
    criterion = SegLoss().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=EPOCHS * len(loader), power=0.9)

    for epoch in range(EPOCHS):
        hist = torch.zeros(len(CLASSES), 2, device=device)
        for img, mask in loader:
            logits = model(img)
            loss = criterion(logits, mask)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            with torch.no_grad():
                p = F.one_hot(logits.argmax(1), len(CLASSES)).float()
                t = F.one_hot(mask, len(CLASSES)).float()
                hist += torch.stack([(p * t).sum((0, 1, 2)), torch.maximum(p, t).sum((0, 1, 2))], dim=1)
        iou = (hist[:, 0] / hist[:, 1].clamp(min=1)).cpu()
        print(f"epoch {epoch}  loss {loss.item():.3f}  " + "  ".join(f"{n} {v:.2f}" for n, v in zip(CLASSES, iou.tolist())))


if __name__ == "__main__":
    main()
