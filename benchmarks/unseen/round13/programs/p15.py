"""Anchor-free detector on synthetic rectangles (heatmap + size regression)."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    size: int = 32
    stride: int = 4
    classes: int = 3
    epochs: int = 6
    iters: int = 4
    batch: int = 6
    lr: float = 1e-2
    gamma_start: float = 0.5
    gamma_end: float = 2.5
    score_thr: float = 0.1


class ConvBNAct(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.SiLU())


class Detector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = nn.Sequential(ConvBNAct(3, 12, 2), ConvBNAct(12, 16, 2), ConvBNAct(16, 24))
        self.cls_head = nn.Sequential(ConvBNAct(24, 24), nn.Conv2d(24, cfg.classes, 1))
        self.wh_head = nn.Sequential(ConvBNAct(24, 24), nn.Conv2d(24, 2, 1))
        nn.init.constant_(self.cls_head[-1].bias, -1.5)

    def forward(self, x):
        f = self.backbone(x)
        return self.cls_head(f), self.wh_head(f)


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.75, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p_t = p * target + (1 - p) * (1 - target)
        a_t = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (a_t * (1 - p_t).clamp(min=1e-6) ** self.gamma * ce).sum() / target.sum().clamp(min=1.0)


class Rectangles:
    def __init__(self, cfg, seed):
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)

    def batch(self):
        c = self.cfg
        fs = c.size // c.stride
        img = 0.3 * torch.randn(c.batch, 3, c.size, c.size, generator=self.g)
        heat, wh, mask = torch.zeros(c.batch, c.classes, fs, fs), torch.zeros(c.batch, 2, fs, fs), torch.zeros(c.batch, 1, fs, fs)
        for b in range(c.batch):
            for _ in range(int(torch.randint(1, 4, (1,), generator=self.g))):
                w, h = torch.randint(4, 12, (2,), generator=self.g).tolist()
                x, y = torch.randint(0, c.size - 12, (2,), generator=self.g).tolist()
                k = int(torch.randint(0, c.classes, (1,), generator=self.g))
                img[b, k, y:y + h, x:x + w] += 1.5
                cy, cx = (y + h // 2) // c.stride, (x + w // 2) // c.stride
                heat[b, k, cy, cx], mask[b, 0, cy, cx] = 1.0, 1.0
                wh[b, :, cy, cx] = torch.tensor([w, h]) / c.size
        return img, heat, wh, mask


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = Detector(cfg).to(self.device)
        self.focal = FocalLoss(gamma=cfg.gamma_start)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
        self.train_data, self.val_data = Rectangles(cfg, 0), Rectangles(cfg, 1)

    def before_epoch(self, epoch):
        t = epoch / (self.cfg.epochs - 1)
        self.focal.gamma = self.cfg.gamma_start + t * (self.cfg.gamma_end - self.cfg.gamma_start)

    def train_epoch(self):
        self.model.train()
        for _ in range(self.cfg.iters):
            img, heat, wh, mask = (t.to(self.device) for t in self.train_data.batch())
            cls, size = self.model(img)
            loss = self.focal(cls, heat) + 2.0 * ((size - wh).abs() * mask).sum() / mask.sum().clamp(min=1.0)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            torch_xla.sync()
        return loss.item()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        img, heat, wh, mask = (t.to(self.device) for t in self.val_data.batch())
        cls, size = self.model(img)
        scores = cls.sigmoid()
        peak = scores * (scores == F.max_pool2d(scores, 3, 1, 1))
        kept = peak[peak > self.cfg.score_thr]
        hit = (peak > self.cfg.score_thr).float().mul(heat).sum() / heat.sum()
        report = {"dets": kept.numel(), "mean_score": kept.mean().item(), "recall": hit.item()}
        torch_xla.sync()
        return report

    def run(self):
        for epoch in range(self.cfg.epochs):
            self.before_epoch(epoch)
            loss = self.train_epoch()
            r = self.validate()
            print(f"epoch {epoch} loss {loss:.3f} dets {r['dets']} score {r['mean_score']:.3f} recall {r['recall']:.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Runner(Config()).run()
