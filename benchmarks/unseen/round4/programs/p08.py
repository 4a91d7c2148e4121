"""A one-stage detector head in the manner of SSD, with hard negative mining at 3:1."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

GRID, CLASSES, NEG_POS = 8, 3, 3


class Squares(Dataset):
    """Images with one to four bright squares; a cell is positive where a square has its centre."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            img = 0.1 * torch.rand(1, 32, 32, generator=g)
            cls = torch.zeros(GRID, GRID, dtype=torch.long)
            box = torch.zeros(GRID, GRID, 2)
            for _ in range(int(torch.randint(1, 5, (1,), generator=g))):
                gy, gx = torch.randint(GRID, (2,), generator=g).tolist()
                k = int(torch.randint(1, CLASSES + 1, (1,), generator=g))
                s = k + 1
                img[:, gy * 4:gy * 4 + s, gx * 4:gx * 4 + s] += 0.8
                cls[gy, gx] = k
                box[gy, gx] = s / 4
            self.items.append((img, cls.flatten(), box.flatten(0, 1)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Detector(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, w, 3, 2, 1), nn.GroupNorm(4, w), nn.SiLU(),
            nn.Conv2d(w, w, 3, 2, 1), nn.GroupNorm(4, w), nn.SiLU())
        self.cls = nn.Conv2d(w, CLASSES + 1, 1)
        self.reg = nn.Conv2d(w, 2, 1)

    def forward(self, x):
        h = self.body(x)
        return self.cls(h).flatten(2).transpose(1, 2), self.reg(h).flatten(2).transpose(1, 2)


class MultiBoxLoss(nn.Module):
    def forward(self, logits, boxes, cls, box):
        logits, cls = logits.flatten(0, 1), cls.flatten()
        pos = cls > 0
        n_pos = pos.sum()
        ce = F.cross_entropy(logits, cls, reduction="none")
        reg = F.smooth_l1_loss(boxes.flatten(0, 1), box.flatten(0, 1), reduction="none").sum(1)
        n_neg = min(NEG_POS * int(n_pos), cls.numel() - 1)
        hard, _ = ce.masked_fill(pos, 0.0).topk(n_neg)
        total = (ce * pos).sum() + hard.sum() + (reg * pos).sum()
        return total / n_pos.clamp(min=1)


def main(epochs=2):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = Detector().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    crit = MultiBoxLoss()
    g = torch.Generator().manual_seed(4)
    loader = DataLoader(Squares(64, 0), batch_size=8, shuffle=True, drop_last=True, generator=g)
    feed = pl.MpDeviceLoader(loader, dev)
    torch_xla.sync()
    for epoch in range(epochs):
        for img, cls, box in feed:
            opt.zero_grad()
            logits, boxes = model(img)
            loss = crit(logits, boxes, cls, box)
            loss.backward()
            xm.optimizer_step(opt)
        torch_xla.sync()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
