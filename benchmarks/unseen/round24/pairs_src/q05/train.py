import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class BatchNorm(nn.BatchNorm2d):
    """BatchNorm2d that becomes a plain affine with the running statistics in eval mode."""

    def forward(self, x):
        if self.training:
            return super().forward(x)
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        shift = self.bias - self.running_mean * scale
        return x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)


def conv_bn(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), BatchNorm(o), nn.ReLU6())


class Bottleneck(nn.Module):
    def __init__(self, c, expand=2):
        super().__init__()
        self.expand = conv_bn(c, c * expand)
        self.depthwise = nn.Sequential(
            nn.Conv2d(c * expand, c * expand, 3, 1, 1, groups=c * expand, bias=False),
            BatchNorm(c * expand),
            nn.ReLU6(),
        )
        self.project = nn.Sequential(nn.Conv2d(c * expand, c, 1, bias=False), BatchNorm(c))

    def forward(self, x):
        return x + self.project(self.depthwise(self.expand(x)))


class SegNet(nn.Module):
    def __init__(self, n_cls):
        super().__init__()
        self.stem = conv_bn(3, 8, 2)
        self.block = Bottleneck(8)
        self.head = nn.ConvTranspose2d(8, n_cls, 2, stride=2)

    def forward(self, x):
        return self.head(self.block(self.stem(x)))


class ModelEma:
    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).eval()
        self.module.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)


def freeze_norm(model):
    for m in model.modules():
        if isinstance(m, BatchNorm):
            m.eval()


def batches(args, gen):
    for _ in range(args.steps_per_epoch):
        img = torch.rand(args.batch_size, 3, 16, 16, generator=gen)
        lab = (img.mean(1) * args.num_classes).long().clamp(0, args.num_classes - 1)
        lab[torch.rand(lab.shape, generator=gen) < 0.05] = 255
        yield img, lab


def train_one_epoch(model, ema, opt, epoch, args, gen, device, state):
    model.train()
    if epoch >= args.freeze_bn_epoch:
        freeze_norm(model)
    losses = []
    for img, lab in batches(args, gen):
        with torch_xla.step():
            img, lab = img.to(device), lab.to(device)
            opt.zero_grad()
            loss = F.cross_entropy(model(img), lab, ignore_index=255)
            loss.backward()
            opt.step()
            state["step"] += 1
            if state["step"] > args.ema_warmup:
                ema.update(model)
        losses.append(loss.detach())
    print(f"epoch {epoch}", [round(l.item(), 4) for l in losses])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--steps-per-epoch", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--num-classes", type=int, default=5)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--freeze-bn-epoch", type=int, default=2)
    ap.add_argument("--ema-warmup", type=int, default=4)
    args = ap.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    model = SegNet(args.num_classes).to(device)
    ema = ModelEma(model, 0.99)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    state = {"step": 0}
    for epoch in range(args.epochs):
        train_one_epoch(model, ema, opt, epoch, args, gen, device, state)


if __name__ == "__main__":
    main()
