"""Monocular depth, small encoder/decoder; BatchNorm of the encoder freezes after warm-up."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FREEZE_BN_STEP = 4


class FreezableBatchNorm2d(nn.BatchNorm2d):
    """BatchNorm whose statistics can be frozen while weight and bias go on training."""

    frozen = False

    def forward(self, x):
        if not self.frozen:
            return super().forward(x)
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        bias = self.bias - self.running_mean * scale
        return x * scale.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)


class Block(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn = FreezableBatchNorm2d(o)

    def forward(self, x):
        return F.leaky_relu(self.bn(self.conv(x)), 0.1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Block(3, 4)
        self.down = Block(4, 6, 2)

    def forward(self, x):
        skip = self.stem(x)
        return skip, self.down(skip)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mid = Block(6, 6)
        self.fuse = Block(10, 4)
        self.head = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, skip, x):
        x = F.interpolate(self.mid(x), scale_factor=2, mode="nearest")
        return F.softplus(self.head(self.fuse(torch.cat([skip, x], 1)))) + 1e-3


class DepthNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x):
        return self.decoder(*self.encoder(x))


def silog_loss(pred, target, lam=0.85):
    valid = (target > 0).float()
    d = (torch.log(pred) - torch.log(target.clamp(min=1e-3))) * valid
    n = valid.sum()
    return torch.sqrt((d ** 2).sum() / n - lam * (d.sum() / n) ** 2 + 1e-8)


def set_mode(model, step):
    model.train()
    for m in model.encoder.modules():
        if isinstance(m, FreezableBatchNorm2d):
            m.frozen = step >= FREEZE_BN_STEP


def pending(model, opt, loss):
    ts = [loss]
    for p in model.parameters():
        ts += [p, p.grad, opt.state[p]["momentum_buffer"]]
    for m in model.modules():
        if isinstance(m, FreezableBatchNorm2d) and not m.frozen:
            ts += [m.running_mean, m.running_var, m.num_batches_tracked]
    return ts


def main(dumps):
    torch.manual_seed(5)
    device = torch_xla.device()
    model = DepthNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4, nesterov=True)
    torch_xla.sync()
    for step in range(1, 7):
        set_mode(model, step)
        image = torch.rand(2, 3, 8, 8).to(device)
        depth = (torch.rand(2, 1, 8, 8) * 5 - 0.5).clamp(min=0).to(device)
        loss = silog_loss(model(image), depth)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step in dumps:
            with open(dumps[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(model, opt, loss)))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main({3: sys.argv[1], 4: sys.argv[2]})
