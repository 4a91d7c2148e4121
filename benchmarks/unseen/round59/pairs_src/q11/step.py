"""Raindrop removal: small gated U-Net, Charbonnier + edge loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TOTAL_STEPS = 12
EDGE_RAMP = 8
WARMUP = 2
BASE_LR = 2e-4


class SimpleGate(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return a * b


class GatedBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm = nn.GroupNorm(1, ch)
        self.expand = nn.Conv2d(ch, 2 * ch, 1)
        self.dw = nn.Conv2d(2 * ch, 2 * ch, 3, padding=1, groups=2 * ch)
        self.gate = SimpleGate()
        self.attn = nn.Conv2d(ch, ch, 1, bias=False)
        self.project = nn.Conv2d(ch, ch, 1, bias=False)
        self.beta = nn.Parameter(torch.full((1, ch, 1, 1), 1e-2))

    def forward(self, x):
        h = self.gate(self.dw(self.expand(self.norm(x))))
        h = h * self.attn(h.mean((2, 3), keepdim=True))
        return x + self.beta * self.project(h)


class Derain(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.down = nn.Conv2d(ch, 2 * ch, 2, stride=2)
        self.mid = GatedBlock(2 * ch)
        self.up = nn.Sequential(nn.Conv2d(2 * ch, 4 * ch, 1), nn.PixelShuffle(2))
        self.dec = GatedBlock(ch)
        self.head = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x):
        e = self.stem(x)
        m = self.mid(self.down(e))
        return x + self.head(self.dec(self.up(m) + e))


class RestorationLoss(nn.Module):
    def __init__(self, ramp_steps):
        super().__init__()
        k = torch.tensor([[1., 2., 1.], [0., 0., 0.], [-1., -2., -1.]]) / 8
        self.register_buffer("sobel", torch.stack([k, k.t()]).unsqueeze(1))
        self.ramp_steps = ramp_steps

    def edges(self, img):
        return F.conv2d(img.mean(1, keepdim=True), self.sobel, padding=1)

    def forward(self, pred, target, step):
        pixel = torch.sqrt((pred - target) ** 2 + 1e-6).mean()
        edge = F.l1_loss(self.edges(pred), self.edges(target))
        weight = min((step + 1) / self.ramp_steps, 1.0)
        return pixel + weight * edge, pixel


def lr_at(step):
    if step < WARMUP:
        return BASE_LR * (step + 1) / (WARMUP + 1)
    return BASE_LR * (1.0 - 0.9 * (step - WARMUP) / TOTAL_STEPS)


def batches(n):
    g = torch.Generator().manual_seed(3)
    for _ in range(n):
        clean = torch.rand(2, 3, 32, 32, generator=g)
        streaks = (torch.rand(2, 1, 32, 32, generator=g) > 0.92).float() * 0.4
        yield (clean + streaks).clamp(0, 1), clean


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Derain().to(device)
    criterion = RestorationLoss(EDGE_RAMP).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=BASE_LR, betas=(0.9, 0.9), weight_decay=1e-3)
    torch_xla.sync()

    for step, (rainy, clean) in enumerate(batches(TOTAL_STEPS)):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)
        rainy, clean = rainy.to(device), clean.to(device)
        optimizer.zero_grad()
        loss, pixel = criterion(model(rainy), clean, step)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 4 == 3:
            psnr = -20 * torch.log10(torch.tensor(pixel.item()))
            print(f"step {step} loss {loss.item():.4f} psnr~{psnr:.2f}")


if __name__ == "__main__":
    main()
