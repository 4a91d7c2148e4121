import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.up, self.out = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.relu(self.d1(x))
        b = self.up(F.relu(self.d2(a)))
        return self.out(torch.cat([a, b], 1))


def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


class OnlineHardPixels:
    """Cross entropy over the hardest pixels; the share is annealed."""

    def __init__(self, start=1.0, end=0.25, steps=10):
        self.start, self.end, self.steps, self.t = start, end, steps, 0

    def __call__(self, logits, mask):
        share = self.start + (self.end - self.start) * min(1.0, self.t / self.steps)
        self.t += 1
        pixel = F.binary_cross_entropy_with_logits(logits, mask, reduction="none").flatten()
        keep = int(share * pixel.numel())
        return pixel.topk(keep).values.mean()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    net, hard = TinyUNet().to(device), OnlineHardPixels()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for i in range(10):
        mask = (torch.randn(2, 1, 8, 8) > 0.5).float()
        image = mask + 0.3 * torch.randn_like(mask)
        mask = mask.to(device)
        logits = net(image.to(device))
        loss = dice(logits, mask) + hard(logits, mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, round(loss.item(), 4))


main()
