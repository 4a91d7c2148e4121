"""Histology tiles with timm: a tiny ConvNet trained with mixup and cutmix."""
import numpy as np
import timm, timm.optim
import torch
import torch.nn as nn
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy

CLASSES = 3
SIZE = 16
BATCH = 6
STEPS = 34


class TileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = timm.layers.ConvNormAct(3, 8, kernel_size=3, stride=2)
        self.body = timm.layers.ConvNormAct(8, 16, kernel_size=3, stride=2)
        self.head = timm.layers.ClassifierHead(16, CLASSES, pool_type="avg")

    def forward(self, x):
        return self.head(self.body(self.stem(x)))


def tiles(gen):
    """Stained tiles: the class changes the mean of one colour channel."""
    x = torch.rand(BATCH, 3, SIZE, SIZE, generator=gen)
    y = torch.randint(0, CLASSES, (BATCH,), generator=gen)
    x[torch.arange(BATCH), y] += 0.4
    return x, y


def main():
    torch.manual_seed(20)
    np.random.seed(21)
    gen = torch.Generator().manual_seed(22)
    device = torch_xla.device()
    model = TileNet().to(device)
    opt = timm.optim.create_optimizer_v2(model, opt="momentum", lr=0.05, weight_decay=1e-4)
    criterion = SoftTargetCrossEntropy()
    mix = Mixup(mixup_alpha=0.4, cutmix_alpha=1.0, prob=1.0, switch_prob=0.6,
                label_smoothing=0.1, num_classes=CLASSES)
    model.train()
    for step in range(1, STEPS + 1):
        x, y = tiles(gen)
        x, y = x.to(device), y.to(device)
        x, target = mix(x, y)
        opt.zero_grad()
        loss = criterion(model(x), target)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 17 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
