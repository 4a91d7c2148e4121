"""Denoising diffusion on 2-d toy data, samples are drawn after every epoch."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

T = 24
BATCH = 64
EPOCHS = 4
STEPS_PER_EPOCH = 15


def swiss_roll(n, gen):
    t = 1.5 * torch.pi * (1 + 2 * torch.rand(n, generator=gen))
    x = torch.stack([t * t.cos(), t * t.sin()], 1) / 10
    return x + 0.02 * torch.randn(n, 2, generator=gen)


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.temb = nn.Embedding(T, width)
        self.inp = nn.Linear(2, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.temb(t))
        h = F.silu(self.mid(h) + self.temb(t))
        return self.out(h)


class GaussianDiffusion:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.betas = torch.linspace(1e-3, 0.2, T).to(device)
        self.alphas = 1.0 - self.betas
        self.abar = torch.cumprod(self.alphas, 0)
        self.sigma = self.betas.sqrt()

    def loss(self, x0):
        t = torch.randint(0, T, (x0.shape[0],), device=self.device)
        noise = torch.randn_like(x0)
        ab = self.abar[t].unsqueeze(1)
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        return F.mse_loss(self.model(xt, t), noise)

    def p_mean(self, x, t):
        steps = torch.full((x.shape[0],), t, device=self.device, dtype=torch.long)
        eps = self.model(x, steps)
        coef = self.betas[t] / (1 - self.abar[t]).sqrt()
        return (x - coef * eps) / self.alphas[t].sqrt()

    @torch.no_grad()
    def sample(self, n):
        self.model.eval()
        x = torch.randn(n, 2, device=self.device)
        for t in reversed(range(T)):
            mean = self.p_mean(x, t)
            x = mean + self.sigma[t] * torch.randn_like(x) if t > 0 else mean
            torch_xla.sync()
        self.model.train()
        return x


def run():
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(12)
    device = xm.xla_device()
    model = Denoiser().to(device)
    diffusion = GaussianDiffusion(model, device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    torch_xla.sync()
    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        for _ in range(STEPS_PER_EPOCH):
            with torch_xla.step():
                x0 = swiss_roll(BATCH, gen).to(device)
                opt.zero_grad()
                loss = diffusion.loss(x0)
                loss.backward()
                opt.step()
                total += loss.detach()
        xs = diffusion.sample(BATCH).cpu()
        print(f"epoch {epoch} mse {total.item() / STEPS_PER_EPOCH:.4f} "
              f"sample mean {xs.mean().item():+.3f} std {xs.std().item():.3f}")


if __name__ == "__main__":
    run()
