"""Lesion segmentation on synthetic CT slices: cached volume, random patches, two patch sizes, tiled inference."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 64


def phantom(n, gen):
    """Slices with a body ellipse, some vessels and one or two bright lesions."""
    ax = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    images, masks = [], []
    for _ in range(n):
        body = ((xx / 0.9) ** 2 + (yy / 0.75) ** 2 < 1).float()
        img = 0.4 * body
        mask = torch.zeros(SIZE, SIZE)
        for _ in range(4):
            c = torch.rand(2, generator=gen) - 0.5
            img = img + 0.2 * (((xx - c[0]) ** 2 + (yy - c[1]) ** 2) < 0.003).float()
        for _ in range(int(torch.randint(1, 3, (1,), generator=gen))):
            c = torch.rand(2, generator=gen) - 0.5
            r = 0.12 + 0.12 * torch.rand(1, generator=gen)
            les = (((xx - c[0]) ** 2 + 1.5 * (yy - c[1]) ** 2) < r ** 2).float()
            img, mask = img + 0.5 * les, torch.maximum(mask, les)
        images.append(img + 0.08 * torch.randn(SIZE, SIZE, generator=gen))
        masks.append(mask)
    return torch.stack(images), torch.stack(masks)


class PatchSampler:
    """Slices stay on the device; a patch is a gather with start rows and columns drawn per sample."""

    def __init__(self, images, masks, device, gen):
        self.images, self.masks = images.to(device), masks.to(device)
        self.device, self.gen = device, gen

    def draw(self, batch, size):
        n = self.images.shape[0]
        pick = torch.randint(0, n, (batch,), generator=self.gen).to(self.device)
        corner = torch.randint(0, SIZE - size + 1, (2, batch, 1, 1), generator=self.gen).to(self.device)
        r = corner[0] + torch.arange(size, device=self.device).view(1, size, 1)
        c = corner[1] + torch.arange(size, device=self.device).view(1, 1, size)
        flat = (r * SIZE + c).flatten(1)
        x = self.images.flatten(1)[pick].gather(1, flat).view(batch, 1, size, size)
        y = self.masks.flatten(1)[pick].gather(1, flat).view(batch, 1, size, size)
        return x, y


class SegNet(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.e1 = nn.Sequential(nn.Conv2d(1, w, 3, padding=1), nn.ReLU())
        self.e2 = nn.Sequential(nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(2 * w, 2 * w, 3, padding=2, dilation=2), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, 1, 1)
        self.aux = nn.Conv2d(2 * w, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.mid(self.e2(a))
        return self.out(torch.cat([a, self.up(b)], 1)), self.aux(b)


def tversky(logits, y, alpha):
    p = torch.sigmoid(logits)
    tp = (p * y).sum((1, 2, 3))
    fp = (p * (1 - y)).sum((1, 2, 3))
    fn = ((1 - p) * y).sum((1, 2, 3))
    return (1 - (tp + 1) / (tp + alpha * fp + (1 - alpha) * fn + 1)).mean()


def objective(out, y, alpha, aux_weight):
    main, aux = out
    low = F.max_pool2d(y, 2)
    loss = F.binary_cross_entropy_with_logits(main, y) + tversky(main, y, alpha)
    return loss + aux_weight * F.binary_cross_entropy_with_logits(aux, low)


@torch.no_grad()
def tiled_dice(model, images, masks, tile=32, stride=16):
    """Overlapping tiles, one at a time through the net, averaged with a fixed window."""
    ramp = 1 - (torch.linspace(-1, 1, tile, device=images.device).abs() * 0.9)
    window = (ramp[:, None] * ramp[None, :]).view(1, 1, tile, tile)
    tiles = images.unsqueeze(1).unfold(2, tile, stride).unfold(3, tile, stride)
    b, _, nr, nc = tiles.shape[:4]
    flat = tiles.permute(0, 2, 3, 1, 4, 5).reshape(b * nr * nc, 1, tile, tile)
    prob = torch.sigmoid(model(flat)[0]) * window

    def fold(t):
        cols = t.view(b, nr * nc, tile * tile).transpose(1, 2)
        return F.fold(cols, (SIZE, SIZE), tile, stride=stride)

    prob = fold(prob) / fold(window.expand_as(prob).contiguous())
    hard = (prob.squeeze(1) > 0.5).float()
    dice = (2 * (hard * masks).sum() + 1) / (hard.sum() + masks.sum() + 1)
    torch_xla.sync()
    return dice.item()


def main():
    torch.manual_seed(81)
    xm.set_rng_state(81)
    gen = torch.Generator().manual_seed(81)
    device = torch_xla.device()
    images, masks = phantom(24, gen)
    sampler = PatchSampler(images[:20], masks[:20], device, gen)
    test_x, test_y = images[20:].to(device), masks[20:].to(device)

    model = SegNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    stages = [(16, 16, 12), (32, 8, 40)]        # patch, batch, steps
    total = sum(s[2] for s in stages)
    step = 0
    for size, batch, n in stages:
        for _ in range(n):
            for g in opt.param_groups:
                g["lr"] = 2e-2 * min(1.0, (step + 1) / 5) * (0.1 + 0.9 * math.cos(math.pi / 2 * step / total))
            x, y = sampler.draw(batch, size)
            x = x * (0.8 + 0.4 * torch.rand(batch, 1, 1, 1, device=device))
            loss = objective(model(x), y, alpha=0.3, aux_weight=0.25)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            torch_xla.sync()
            step += 1
            if step % 8 == 0:
                print(f"step {step:3d} patch {size} loss {loss.item():.4f} "
                      f"dice {tiled_dice(model, test_x, test_y):.3f}")


if __name__ == "__main__":
    main()
