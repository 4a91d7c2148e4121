"""Image denoising with an equilibrium layer: z = tanh(conv(z) + inject(x))."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

IMAGE = 8
CHANNELS = 4
BATCH_SIZE = 8
STEPS = 36
TOLERANCE = 1e-3
MAX_ITER = 30


def make_images(n, seed=9):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 3.14, IMAGE)
    freq = torch.rand(n, 1, 1, generator=g) * 3
    phase = torch.rand(n, 1, 1, generator=g) * 3
    clean = torch.sin(freq * grid.view(1, -1, 1) + phase) * torch.cos(freq * grid.view(1, 1, -1))
    clean = clean.unsqueeze(1)
    level = torch.rand(n, 1, 1, 1, generator=g)
    noisy = clean + level * torch.randn(clean.shape, generator=g)
    return TensorDataset(noisy, clean)


class EquilibriumLayer(nn.Module):
    """Iterates to the fixed point without gradient, then takes one step with it."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.inject = nn.Conv2d(1, channels, 3, padding=1)

    def cell(self, z, u):
        return torch.tanh(self.conv(z) + u)

    def solve(self, u):
        z = torch.zeros_like(u)
        for _ in range(MAX_ITER):
            z_next = self.cell(z, u)
            residual = (z_next - z).norm() / (z_next.norm() + 1e-6)
            z = z_next
            if residual.item() < TOLERANCE:
                break
        return z

    def forward(self, x):
        u = self.inject(x)
        with torch.no_grad():
            z = self.solve(u)
        return self.cell(z, u)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = EquilibriumLayer(CHANNELS)
        self.out = nn.Conv2d(CHANNELS, 1, 3, padding=1)

    def forward(self, x):
        return self.out(self.core(x))


def endless(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(6)
    device = torch_xla.device()
    loader = DataLoader(make_images(160), BATCH_SIZE, shuffle=True, drop_last=True)
    model = Denoiser().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for step, (noisy, clean) in enumerate(endless(loader), start=1):
        with torch_xla.step():
            optimizer.zero_grad()
            restored = model(noisy.to(device))
            loss = F.mse_loss(restored, clean.to(device))
            loss.backward()
            optimizer.step()
        if step % 6 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")
        if step == STEPS:
            break


if __name__ == "__main__":
    main()
