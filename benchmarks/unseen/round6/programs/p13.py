"""Segmentation with progressive resizing, micro-batches and periodic validation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = 3
STAGES = ({"size": 16, "updates": 8}, {"size": 24, "updates": 8}, {"size": 32, "updates": 10})
MICRO, ACCUMULATE, VALID_EVERY, VALID_SIZE = 4, 3, 5, 32


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2 = DoubleConv(3, w), DoubleConv(w, 2 * w)
        self.mid = DoubleConv(2 * w, 2 * w)
        self.u2, self.u1 = DoubleConv(4 * w, w), DoubleConv(2 * w, w)
        self.out = nn.Conv2d(w, CLASSES, 1)

    @staticmethod
    def up(x):
        b, c, h, w = x.shape
        return x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2).reshape(b, c, 2 * h, 2 * w)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([self.up(m), b], 1))
        return self.out(self.u1(torch.cat([self.up(b), a], 1)))


class Discs:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, n, size):
        axis = torch.linspace(-1, 1, size)
        c = torch.rand(n, 2, 2, 1, 1, generator=self.g) * 1.4 - 0.7
        r = 0.25 + 0.25 * torch.rand(n, 2, 1, 1, generator=self.g)
        d2 = (axis[None, None, :, None] - c[:, :, 0]) ** 2 + (axis[None, None, None, :] - c[:, :, 1]) ** 2
        inside = d2 < r ** 2
        mask = torch.zeros(n, size, size, dtype=torch.long)
        mask[inside[:, 0]] = 1
        mask[inside[:, 1]] = 2
        img = F.one_hot(mask, 3).permute(0, 3, 1, 2).float()
        return img + 0.3 * torch.randn(img.shape, generator=self.g), mask


def dice_loss(logits, mask):
    p = logits.softmax(1)
    t = F.one_hot(mask, CLASSES).permute(0, 3, 1, 2).float()
    inter = (p * t).sum((0, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1)).mean()


class Segmenter:
    def __init__(self, device):
        self.device = device
        self.net = SmallUNet().to(device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=3e-3)
        self.train_data, held_out = Discs(1), Discs(2)
        self.valid = [held_out.batch(MICRO, VALID_SIZE) for _ in range(2)]
        self.updates = 0

    def micro_step(self, size):
        x, m = (t.to(self.device) for t in self.train_data.batch(MICRO, size))
        logits = self.net(x)
        loss = (F.cross_entropy(logits, m) + 0.5 * dice_loss(logits, m)) / ACCUMULATE
        loss.backward()
        torch_xla.sync()
        return loss.detach()

    def update(self, size):
        for _ in range(ACCUMULATE):
            loss = self.micro_step(size)
        nn.utils.clip_grad_norm_(self.net.parameters(), 2.0)
        self.opt.step()
        self.opt.zero_grad()
        torch_xla.sync()
        self.updates += 1
        return loss * ACCUMULATE

    @torch.no_grad()
    def validate(self):
        inter, union = torch.zeros(CLASSES), torch.zeros(CLASSES)
        for x, m in self.valid:
            pred = self.net(x.to(self.device)).argmax(1)
            torch_xla.sync()
            p, t = F.one_hot(pred.cpu(), CLASSES).bool(), F.one_hot(m, CLASSES).bool()
            inter += (p & t).sum((0, 1, 2))
            union += (p | t).sum((0, 1, 2))
        return (inter / union.clamp(min=1)).mean().item()

    def run_stage(self, size, updates):
        for _ in range(updates):
            self.update(size)
            if self.updates % VALID_EVERY == 0:
                print(f"update {self.updates} size {size} mIoU {self.validate():.3f}")


def main():
    torch.manual_seed(0)
    job = Segmenter(torch_xla.device())
    torch_xla.sync()
    for stage in STAGES:
        job.run_stage(**stage)


if __name__ == "__main__":
    main()
