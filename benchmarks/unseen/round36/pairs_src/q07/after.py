"""3D U-Net for cochlea segmentation (micro-CT), bf16 autocast, soft Dice + cross entropy."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla import _XLAC


class Block(nn.Module):
    def __init__(self, a, b, groups=2):
        super().__init__()
        self.conv = nn.Conv3d(a, b, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(groups, b)

    def forward(self, x):
        return F.leaky_relu(self.norm(self.conv(x)), 0.01)


class UNet3D(nn.Module):
    def __init__(self, base=4, classes=3):
        super().__init__()
        self.e1 = Block(1, base)
        self.e2 = Block(base, 2 * base)
        self.mid = Block(2 * base, 2 * base)
        self.up = nn.ConvTranspose3d(2 * base, base, 2, stride=2)
        self.d1 = Block(2 * base, base)
        self.aux = nn.Conv3d(2 * base, classes, 1)
        self.out = nn.Conv3d(base, classes, 1)

    def forward(self, x):
        s1 = self.e1(x)
        h = self.e2(F.max_pool3d(s1, 2))
        h = self.mid(h)
        aux = self.aux(h)
        h = self.d1(torch.cat([s1, self.up(h)], dim=1))
        return self.out(h), aux


class DiceCE(nn.Module):
    def __init__(self, classes=3, smooth=1e-5, ce_weight=(0.2, 1.0, 1.0)):
        super().__init__()
        self.classes = classes
        self.smooth = smooth
        self.register_buffer("ce_weight", torch.tensor(ce_weight))

    def forward(self, logits, target):
        prob = torch.softmax(logits, dim=1)
        onehot = F.one_hot(target, self.classes).movedim(-1, 1).to(prob.dtype)
        dims = (2, 3, 4)
        inter = (prob * onehot).sum(dims)
        size = prob.sum(dims) + onehot.sum(dims)
        dice = (2 * inter + self.smooth) / (size + self.smooth)
        dice = 1 - dice[:, 1:].mean()
        logp = F.log_softmax(logits, dim=1)
        weight = self.ce_weight.view(1, -1, 1, 1, 1).to(logp.dtype) * onehot
        ce = -(weight * logp).sum() / weight.sum()
        return dice + ce


def train_step(model, criterion, opt, x, y):
    opt.zero_grad()
    with torch.autocast("xla", dtype=torch.bfloat16):
        logits, aux = model(x)
    loss = criterion(logits, y) + 0.4 * criterion(aux, y[:, ::2, ::2, ::2])
    loss.backward()
    opt.step()
    return loss.detach()


def batch(gen, device, n=2, side=8):
    x = torch.randn(n, 1, side, side, side, generator=gen)
    y = (x[:, 0] > 0.3).long() + (x[:, 0] > 1.2).long()
    return x.to(device), y.to(device)


def pending(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad]
        out += [v for _, v in sorted(opt.state[p].items())
                if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(51)
    device = torch_xla.device()
    model = UNet3D().to(device)
    criterion = DiceCE().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.95, nesterov=True)
    gen = torch.Generator().manual_seed(52)
    torch_xla.sync()
    for i in range(args.steps):
        loss = train_step(model, criterion, opt, *batch(gen, device))
        if args.dump and i == args.steps - 1:
            with open(args.dump, "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main()
