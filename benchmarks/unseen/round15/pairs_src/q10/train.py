"""Defect detection on rolled steel strips: dense per-pixel scores with a focal objective."""
import types

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met
from torch.utils.data import DataLoader, IterableDataset

cfg = types.SimpleNamespace(
    height=12, width=24, batch=8, per_epoch=8, epochs=5, channels=12, lr=4e-3,
    focal=(1.5, 3.0), settle_epochs=2, max_norm=1.0,
)


class StripStream(IterableDataset):
    def __init__(self, cfg, seed):
        self.cfg, self.seed = cfg, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.cfg.batch * self.cfg.per_epoch):
            img = 0.2 * torch.randn(1, self.cfg.height, self.cfg.width, generator=g)
            mask = torch.zeros_like(img)
            for _ in range(int(torch.randint(0, 3, (), generator=g))):
                r = int(torch.randint(0, self.cfg.height - 2, (), generator=g))
                c = int(torch.randint(0, self.cfg.width - 6, (), generator=g))
                mask[:, r:r + 2, c:c + 6] = 1.0
            yield img + 0.8 * mask, mask


class UNetLite(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.enc1 = nn.Conv2d(1, c, 3, padding=1)
        self.enc2 = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.bott = nn.Conv2d(2 * c, 2 * c, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.dec = nn.Conv2d(2 * c, c, 3, padding=1)
        self.score = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        e1 = F.silu(self.enc1(x))
        e2 = F.silu(self.bott(F.silu(self.enc2(e1))))
        d = F.silu(self.dec(torch.cat([self.up(e2), e1], 1)))
        return self.score(d)


class FocalLoss(nn.Module):
    def __init__(self, gamma, alpha=0.7):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, mask):
        bce = F.binary_cross_entropy_with_logits(logits, mask, reduction="none")
        p_t = torch.exp(-bce)
        a_t = self.alpha * mask + (1 - self.alpha) * (1 - mask)
        return (a_t * (1 - p_t) ** self.gamma * bce).mean()


class Engine:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.net = UNetLite(cfg.channels).to(device)
        self.crit = FocalLoss(cfg.focal[0])
        self.opt = torch.optim.NAdam(self.net.parameters(), lr=cfg.lr)
        self.settled = False

    def on_epoch(self, epoch):
        self.settled = epoch >= self.cfg.settle_epochs
        self.crit.gamma = self.cfg.focal[int(self.settled)]

    def update(self, img, mask):
        self.opt.zero_grad(set_to_none=True)
        loss = self.crit(self.net(img), mask)
        loss.backward()
        if self.settled:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.cfg.max_norm)
        self.opt.step()
        torch_xla.sync()
        return loss.detach()


def main():
    torch.manual_seed(77)
    device = torch_xla.device()
    engine = Engine(cfg, device)
    for epoch in range(cfg.epochs):
        engine.on_epoch(epoch)
        losses = []
        for img, mask in DataLoader(StripStream(cfg, 100 + epoch), batch_size=cfg.batch):
            losses.append(engine.update(img.to(device), mask.to(device)))
        print(f"epoch {epoch:2d} focal {sum(l.item() for l in losses) / len(losses):.5f} "
              f"compiles {met.counter_value('UncachedCompile')}")


if __name__ == "__main__":
    main()
