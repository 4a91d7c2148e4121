"""Defect segmentation on small grey tiles (U-Net, focal loss)."""
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    steps=16,
    batch=8,
    tile=24,
    base=8,
    lr=2e-3,
    focal=dict(gamma_start=0.5, gamma_end=2.5, warm=16, alpha=0.75),
    log_every=4,
)


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(4, cout), nn.SiLU())


class TileUNet(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.enc1 = block(1, base)
        self.enc2 = block(base, base * 2)
        self.up = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec = block(base * 2, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        d = self.dec(torch.cat([e1, self.up(e2)], dim=1))
        return self.out(d)


class FocalLoss(nn.Module):
    def __init__(self, gamma_start, gamma_end, warm, alpha):
        super().__init__()
        self.start, self.end, self.warm, self.alpha = gamma_start, gamma_end, warm, alpha
        self.gamma = gamma_start

    def set_step(self, step):
        frac = min(1.0, step / self.warm)
        self.gamma = self.start + frac * (self.end - self.start)

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        p_t = p * target + (1 - p) * (1 - target)
        a_t = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (a_t * (1 - p_t).clamp(min=1e-6) ** self.gamma * ce).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        torch.manual_seed(3)
        self.model = TileUNet(cfg["base"]).to(self.device)
        self.criterion = FocalLoss(**cfg["focal"])
        self.optim = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])
        self.losses = []
        self.ious = []

    def batches(self):
        n, s = self.cfg["batch"], self.cfg["tile"]
        yy, xx = torch.meshgrid(torch.arange(s), torch.arange(s), indexing="ij")
        for _ in range(self.cfg["steps"]):
            cy, cx = torch.randint(4, s - 4, (2, n, 1, 1))
            r = torch.randint(2, 5, (n, 1, 1))
            mask = (((yy - cy) ** 2 + (xx - cx) ** 2) < r ** 2).float().unsqueeze(1)
            image = 0.6 * mask + 0.4 * torch.randn(n, 1, s, s)
            yield image.to(self.device), mask.to(self.device)

    def train_step(self, image, mask):
        self.optim.zero_grad()
        logits = self.model(image)
        loss = self.criterion(logits, mask)
        loss.backward()
        self.optim.step()
        with torch.no_grad():
            pred = (logits > 0).float()
            inter = (pred * mask).sum()
            union = ((pred + mask) > 0).float().sum()
            iou = inter / union.clamp(min=1.0)
        return loss.detach(), iou

    def report(self, step):
        mean_loss = torch.stack(self.losses).mean()
        mean_iou = torch.stack(self.ious).mean()
        print(f"[{step}/{self.cfg['steps']}] loss {mean_loss.item():.4f} iou {mean_iou.item():.4f} "
              f"gamma {self.criterion.gamma:.2f}")

    def fit(self):
        for step, (image, mask) in enumerate(self.batches(), start=1):
            self.criterion.set_step(step)
            loss, iou = self.train_step(image, mask)
            self.losses.append(loss)
            self.ious.append(iou)
            xm.mark_step()
            if step % self.cfg["log_every"] == 0:
                self.report(step)


if __name__ == "__main__":
    Trainer(CFG).fit()
