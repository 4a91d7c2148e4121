"""Point cloud autoencoder trained with an entropic optimal transport loss."""
import math

import torch
import torch.nn as nn
import torch_xla

SEED = 8
POINTS = 24
BATCH = 6
LATENT = 8
STEPS = 24


class SinkhornLoss(nn.Module):
    """Entropy regularised transport cost between two uniform point sets, in the log domain."""

    def __init__(self, eps=0.08, max_iter=40, thresh=0.04):
        super().__init__()
        self.eps = eps
        self.max_iter = max_iter
        self.thresh = thresh

    def cost(self, x, y):
        return (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(dim=-1)

    def kernel(self, C, u, v):
        return (u.unsqueeze(-1) + v.unsqueeze(-2) - C) / self.eps

    def forward(self, x, y):
        C = self.cost(x, y)
        log_mu = math.log(1.0 / x.shape[1] + 1e-8)
        log_nu = math.log(1.0 / y.shape[1] + 1e-8)
        u = torch.zeros(x.shape[:2], device=x.device)
        v = torch.zeros(y.shape[:2], device=y.device)

        for _ in range(self.max_iter):
            u_prev = u
            u = self.eps * (log_mu - torch.logsumexp(self.kernel(C, u, v), dim=-1)) + u
            v = self.eps * (log_nu - torch.logsumexp(self.kernel(C, u, v).transpose(-2, -1), dim=-1)) + v
            err = (u - u_prev).abs().sum(dim=-1).mean()
            if err.item() < self.thresh:
                break

        plan = torch.exp(self.kernel(C, u, v))
        return (plan * C).sum(dim=(-2, -1)).mean()


class SetEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width))
        self.to_latent = nn.Linear(width, LATENT)

    def forward(self, pts):
        return self.to_latent(torch.relu(self.local(pts)).mean(dim=1))


class SetDecoder(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LATENT, width), nn.ReLU(), nn.Linear(width, POINTS * 2))

    def forward(self, z):
        return self.net(z).view(-1, POINTS, 2)


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = SetEncoder()
        self.decoder = SetDecoder()

    def forward(self, pts):
        return self.decoder(self.encoder(pts))


class Ellipses:
    """Rotated ellipse outlines with a random centre and aspect ratio."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def rand(self, *shape):
        return torch.rand(*shape, generator=self.gen)

    def batch(self):
        angle = self.rand(BATCH, POINTS) * 2 * math.pi
        major = 0.6 + 0.6 * self.rand(BATCH, 1)
        minor = 0.2 + 0.4 * self.rand(BATCH, 1)
        px, py = major * angle.cos(), minor * angle.sin()
        rot = self.rand(BATCH, 1) * math.pi
        x = px * rot.cos() - py * rot.sin()
        y = px * rot.sin() + py * rot.cos()
        centre = 0.6 * (self.rand(BATCH, 1, 2) - 0.5)
        return torch.stack([x, y], dim=-1) + centre


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    data = Ellipses(SEED)
    model = AutoEncoder().to(device)
    criterion = SinkhornLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    ema = None

    for step in range(STEPS):
        clouds = data.batch().to(device)
        recon = model(clouds)
        loss = criterion(recon, clouds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()

        value = loss.item()
        ema = value if ema is None else 0.9 * ema + 0.1 * value
        if (step + 1) % 6 == 0:
            print(f"step {step + 1:3d} transport cost {ema:.4f}")


if __name__ == "__main__":
    main()
