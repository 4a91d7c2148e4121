"""Binary segmentation of ultrasound frames: small U-Net, BCE + Dice, weight averaging, torch_xla."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(width=6, size=16, batch=6, lr=0.05, momentum=0.9, weight_decay=1e-4,
           ema_decay=0.99, dice_weight=0.5, grad_clip=2.0, steps=4)


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.GroupNorm(2, cout),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.enc1 = conv_block(1, w)
        self.enc2 = conv_block(w, 2 * w)
        self.mid = nn.Conv2d(2 * w, 2 * w, 3, padding=1)
        self.up2 = nn.ConvTranspose2d(2 * w, 2 * w, 2, stride=2)
        self.dec2 = conv_block(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.dec1 = conv_block(2 * w, w)
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        m = F.relu(self.mid(F.max_pool2d(e2, 2)))
        d2 = self.dec2(torch.cat([self.up2(m), e2], dim=1))
        d1 = self.dec1(torch.cat([self.up1(d2), e1], dim=1))
        return self.head(d1)


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        p = torch.sigmoid(logits).flatten(1)
        t = target.flatten(1)
        inter = (p * t).sum(dim=1)
        dice = (2.0 * inter + self.smooth) / (p.sum(dim=1) + t.sum(dim=1) + self.smooth)
        return (1.0 - dice).mean()


class ModelEMA:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.mul_(self.decay).add_(p.detach(), alpha=1.0 - self.decay)


class Trainer:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.model = UNet(cfg["width"]).to(device)
        self.ema = ModelEMA(self.model, cfg["ema_decay"])
        self.dice = DiceLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"],
                                         weight_decay=cfg["weight_decay"], nesterov=True)

    def loss(self, logits, mask):
        bce = F.binary_cross_entropy_with_logits(logits, mask)
        return bce + self.cfg["dice_weight"] * self.dice(logits, mask)

    def forward_backward(self, image, mask):
        self.optimizer.zero_grad()
        loss = self.loss(self.model(image), mask)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["grad_clip"])
        self.ema.update(self.model)
        return loss.detach()

    def step(self, image, mask):
        loss = self.forward_backward(image, mask)
        self.optimizer.step()
        return loss


def main(cfg=CFG):
    torch.manual_seed(21)
    device = torch_xla.device()
    trainer = Trainer(cfg, device)
    images = torch.randn(cfg["steps"], cfg["batch"], 1, cfg["size"], cfg["size"])
    masks = (F.avg_pool2d(images.flatten(0, 1), 5, 1, 2) > 0.1).float().view_as(images)
    torch_xla.sync()
    for i in range(cfg["steps"]):
        loss = trainer.step(images[i].to(device), masks[i].to(device))
        torch_xla.sync()
        print(f"step {i} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
