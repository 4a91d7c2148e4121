"""Centre-point detector for colonies on agar plates, trained at several scales.

The plate image is rendered at one of three resolutions, in turn; gradients are
accumulated over two micro-batches before each update.
"""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SCALES = (32, 48, 64)
ACCUM = 2
STRIDE = 4
MAX_COLONIES = 5


def render(batch, size, gen):
    """Disks on a noisy plate with the heatmap of their centres."""
    centre = torch.rand(batch, MAX_COLONIES, 2, generator=gen) * 0.8 + 0.1
    radius = torch.rand(batch, MAX_COLONIES, 1, 1, generator=gen) * 0.06 + 0.03
    present = (torch.rand(batch, MAX_COLONIES, 1, 1, generator=gen) < 0.7).float()

    def dist(n):
        axis = (torch.arange(n) + 0.5) / n
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        dy = yy - centre[..., 0, None, None]
        dx = xx - centre[..., 1, None, None]
        return dy.pow(2) + dx.pow(2)

    image = (present * (dist(size) < radius.pow(2)).float()).amax(1, keepdim=True)
    image = image + 0.1 * torch.randn(image.shape, generator=gen)
    heat = (present * torch.exp(-dist(size // STRIDE) / 0.005)).amax(1, keepdim=True)
    return image, heat


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout, stride):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(2, cout),
            nn.SiLU(),
        )


class CentreNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = ConvBlock(1, width, 2)
        self.down = ConvBlock(width, width * 2, 2)
        self.deep = ConvBlock(width * 2, width * 2, 2)
        self.lateral = nn.Conv2d(width * 2, width * 2, 1)
        self.head = nn.Conv2d(width * 2, 1, 3, padding=1)
        nn.init.constant_(self.head.bias, -2.0)

    def forward(self, x):
        c2 = self.down(self.stem(x))
        c3 = self.deep(c2)
        up = c3[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2).reshape(c2.shape)
        return self.head(F.silu(self.lateral(c2) + up))


def heatmap_loss(logits, heat):
    p = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
    pos = (heat > 0.95).float()
    pos_term = -(1 - p).pow(2) * p.log() * pos
    neg_term = -(1 - heat).pow(4) * p.pow(2) * (1 - p).log() * (1 - pos)
    return (pos_term.sum() + neg_term.sum()) / pos.sum().clamp(min=1.0)


def main(updates=18, batch=4):
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(29)
    device = torch_xla.device()
    net = CentreNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.02, total_steps=updates)

    scales = itertools.cycle(SCALES)
    for update in range(updates):
        size = next(scales)
        running = 0.0
        for micro in range(ACCUM):
            image, heat = render(batch, size, gen)
            loss = heatmap_loss(net(image.to(device)), heat.to(device)) / ACCUM
            loss.backward()
            running = running + loss.detach()
            if micro < ACCUM - 1:
                torch_xla.sync()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0, foreach=False)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=True)
        torch_xla.sync()
        if update % 6 == 5:
            print(f"update {update} size {size} loss {running.item():.3f} "
                  f"lr {sched.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
