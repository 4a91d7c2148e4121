"""Crack segmentation on concrete surfaces, small U-Net, hard negatives only."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

CFG = {
    "size": 48,
    "base": 8,
    "batch": 4,
    "lr": 0.02,
    "power": 0.9,
    "max_iter": 400,
    "neg_ratio": 3,
    "min_neg": 128,
    "dice": 0.5,
}


class Cracks(Dataset):
    def __init__(self, n, size, seed=0):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed + i)
        s = self.size
        img = rng.normal(0.55, 0.08, (1, s, s)).astype(np.float32)
        mask = np.zeros((1, s, s), np.float32)
        y, x = rng.integers(0, s), 0
        while x < s:
            t = int(rng.integers(1, 4))
            mask[0, max(0, y - t):y + t, x] = 1.0
            y = int(np.clip(y + rng.integers(-2, 3), 0, s - 1))
            x += 1
        img -= 0.3 * mask
        return torch.from_numpy(img), torch.from_numpy(mask)


def collate(items):
    img = torch.stack([i for i, _ in items])
    mask = torch.stack([m for _, m in items])
    return {"image": img, "mask": mask, "n_pos": int(mask.sum())}


def conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.enc1 = conv(1, base)
        self.enc2 = conv(base, 2 * base)
        self.mid = nn.Sequential(conv(2 * base, 4 * base), conv(4 * base, 4 * base))
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2)
        self.dec2 = conv(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.dec1 = conv(2 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        m = self.mid(F.max_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([self.up2(m), e2], 1))
        d1 = self.dec1(torch.cat([self.up1(d2), e1], 1))
        return self.out(d1)


class HardNegativeBCE(nn.Module):
    """All crack pixels plus the hardest background pixels, `ratio` to one."""

    def __init__(self, ratio, min_neg):
        super().__init__()
        self.ratio = ratio
        self.min_neg = min_neg

    def forward(self, logits, mask, n_pos):
        n_neg = min(max(self.ratio * n_pos, self.min_neg), mask.numel() - n_pos)
        loss = F.binary_cross_entropy_with_logits(logits, mask, reduction="none")
        pos = (loss * mask).sum()
        neg = (loss * (1 - mask)).flatten().topk(n_neg).values.sum()
        return (pos + neg) / (n_pos + n_neg)


def dice_loss(logits, mask):
    p = logits.sigmoid().flatten(1)
    m = mask.flatten(1)
    inter = (p * m).sum(1)
    return (1 - (2 * inter + 1) / (p.sum(1) + m.sum(1) + 1)).mean()


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    net = UNet(CFG["base"]).to(dev)
    crit = HardNegativeBCE(CFG["neg_ratio"], CFG["min_neg"])
    opt = torch.optim.SGD(net.parameters(), lr=CFG["lr"], momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: (1 - it / CFG["max_iter"]) ** CFG["power"])
    loader = DataLoader(Cracks(24, CFG["size"]), batch_size=CFG["batch"], shuffle=True,
                        drop_last=True, collate_fn=collate)
    torch_xla.sync()

    net.train()
    for it, batch in enumerate(loader):
        img, mask = batch["image"].to(dev), batch["mask"].to(dev)
        logits = net(img)
        seg = crit(logits, mask, batch["n_pos"])
        loss = seg + CFG["dice"] * dice_loss(logits, mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        with torch.no_grad():
            hit = ((logits > 0) == (mask > 0.5)).float().mean()
        torch_xla.sync()
        if it % 2 == 1:
            print(it, round(loss.item(), 4), round(hit.item(), 4))


if __name__ == "__main__":
    main()
