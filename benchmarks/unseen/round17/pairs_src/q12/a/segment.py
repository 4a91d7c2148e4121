"""U-Net for cell-border segmentation. Config in UNetConfig, loop in `run`."""
import logging
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logger = logging.getLogger(__name__)


@dataclass
class UNetConfig:
    channels: tuple = (8, 16)
    bn_momentum: float = 0.1
    bn_eps: float = 1e-5
    bottleneck_dilation: int = 1
    lr: float = 0.02
    batch: int = 4
    size: int = 16
    steps: int = 4
    loss_weights: dict = field(default_factory=lambda: {"bce": 1.0, "dice": 0.7})


def conv_bn(cin, cout, cfg, dilation=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=dilation, dilation=dilation, bias=False),
        nn.BatchNorm2d(cout, eps=cfg.bn_eps, momentum=cfg.bn_momentum),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, cfg: UNetConfig):
        super().__init__()
        c1, c2 = cfg.channels
        self.enc1 = conv_bn(1, c1, cfg)
        self.enc2 = conv_bn(c1, c2, cfg)
        self.mid = conv_bn(c2, c2, cfg, dilation=cfg.bottleneck_dilation)
        self.dec2 = conv_bn(c2 + c2, c1, cfg)
        self.dec1 = conv_bn(c1 + c1, c1, cfg)
        self.out = nn.Conv2d(c1, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.avg_pool2d(e1, 2))
        m = self.mid(e2)
        d2 = self.dec2(torch.cat([m, e2], dim=1))
        up = d2.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return self.out(self.dec1(torch.cat([up, e1], dim=1)))


class BorderLoss(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    @staticmethod
    def dice(prob, target):
        inter = (prob * target).sum(dim=(1, 2, 3))
        total = prob.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
        return 1 - ((2 * inter + 1) / (total + 1)).mean()

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits, target)
        dice = self.dice(torch.sigmoid(logits), target)
        return self.weights["bce"] * bce + self.weights["dice"] * dice


def batches(cfg, seed=9):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(cfg.size), torch.arange(cfg.size), indexing="ij")
    while True:
        centre = torch.randint(4, cfg.size - 4, (cfg.batch, 2), generator=g)
        dist = ((yy - centre[:, :1, None]) ** 2 + (xx - centre[:, 1:, None]) ** 2).float().sqrt()
        target = ((dist > 3) & (dist < 5)).float().unsqueeze(1)
        yield target + 0.3 * torch.randn(target.shape, generator=g), target


def run(cfg: UNetConfig):
    device = torch_xla.device()
    model = UNet(cfg).to(device).train()
    criterion = BorderLoss(cfg.loss_weights)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
    data = batches(cfg)
    for step in range(cfg.steps):
        image, target = (t.to(device) for t in next(data))
        opt.zero_grad()
        loss = criterion(model(image), target)
        loss.backward()
        opt.step()
        torch_xla.sync()
        logger.info("step %d loss %.4f", step, loss.item())
    xm.save({"model": model.state_dict(), "cfg": cfg}, "unet.pt")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(0)
    run(UNetConfig())
