"""Small image GAN: hinge loss, differentiable colour/intensity augmentation, top-k generator training."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE, LATENT, BATCH, STEPS = 16, 16, 24, 24


def sample_real(rng, n):
    """Two-tone gradients with a bright blob: enough structure for a toy GAN."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / (SIZE - 1)
    out = np.empty((n, 1, SIZE, SIZE), dtype=np.float32)
    for i in range(n):
        a = rng.uniform(0, 2 * np.pi)
        ramp = 0.5 + 0.5 * (np.cos(a) * (xx - 0.5) + np.sin(a) * (yy - 0.5))
        cy, cx = rng.uniform(0.25, 0.75, 2)
        blob = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 0.02)
        out[i, 0] = np.clip(0.6 * ramp + 0.5 * blob, 0, 1)
    return torch.from_numpy(out * 2 - 1)


class Generator(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(LATENT, width * 16)
        self.c1 = nn.Conv2d(width, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, z):
        h = F.relu(self.fc(z)).view(-1, self.width, 4, 4)
        h = F.relu(self.c1(h.repeat_interleave(2, 2).repeat_interleave(2, 3)))
        return torch.tanh(self.c2(h.repeat_interleave(2, 2).repeat_interleave(2, 3)))


class Discriminator(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 4, 2, 1)
        self.c2 = nn.Conv2d(width, width, 4, 2, 1)
        self.fc = nn.Linear(width * 16, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.1)
        h = F.leaky_relu(self.c2(h), 0.1)
        return self.fc(h.flatten(1)).squeeze(1)


class DiffAugment:
    """Differentiable intensity jitter; strength ramps up with the overfitting heuristic."""

    def __init__(self, rng, target=0.6):
        self.rng, self.target, self.strength = rng, target, 0.2

    def draw(self):
        s = self.strength
        return {
            "shift": self.rng.uniform(-0.3, 0.3) * s,
            "contrast": 1.0 + self.rng.uniform(-0.4, 0.4) * s,
            "gamma": float(np.exp(self.rng.uniform(-0.5, 0.5) * s)),
        }

    def __call__(self, x, p):
        mean = x.mean(dim=(1, 2, 3), keepdim=True)
        x = (x - mean) * p["contrast"] + mean + p["shift"]
        unit = (x * 0.5 + 0.5).clamp(1e-4, 1.0)
        return unit.pow(p["gamma"]) * 2 - 1

    def adapt(self, sign_mean):
        self.strength = float(np.clip(self.strength + 0.1 * np.sign(sign_mean - self.target), 0.2, 1.0))


def k_for(step, batch, decay=0.98, floor=0.5):
    return int(batch * max(decay ** step, floor))


@torch.no_grad()
def average_weights(avg, model, beta):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.lerp_(p, 1.0 - beta)


def main():
    torch.manual_seed(16)
    rng = np.random.default_rng(16)
    device = xm.xla_device()
    xm.set_rng_state(16)

    gen, disc = Generator().to(device), Discriminator().to(device)
    gen_avg = Generator().to(device).requires_grad_(False)
    gen_avg.load_state_dict(gen.state_dict())
    g_opt = torch.optim.RMSprop(gen.parameters(), lr=4e-4, alpha=0.9)
    d_opt = torch.optim.RMSprop(disc.parameters(), lr=8e-4, alpha=0.9)
    augment = DiffAugment(rng)
    fixed_z = torch.randn(BATCH, LATENT, device=device)
    xm.mark_step()

    for step in range(STEPS):
        real = sample_real(rng, BATCH).to(device)

        params = augment.draw()
        with torch.no_grad():
            fake = gen(torch.randn(BATCH, LATENT, device=device))
        d_real = disc(augment(real, params))
        d_fake = disc(augment(fake, params))
        d_loss = F.relu(1 - d_real).mean() + F.relu(1 + d_fake).mean()
        d_opt.zero_grad(set_to_none=True)
        d_loss.backward()
        d_opt.step()

        disc.requires_grad_(False)
        z = torch.randn(BATCH, LATENT, device=device)
        scores = disc(gen(z))
        best = scores.topk(k_for(step, BATCH)).values
        g_loss = -best.mean()
        g_opt.zero_grad(set_to_none=True)
        g_loss.backward()
        g_opt.step()
        disc.requires_grad_(True)

        average_weights(gen_avg, gen, beta=min(0.995, (1 + step) / (10 + step)))
        xm.mark_step()

        if step % 6 == 5:
            augment.adapt(d_real.detach().sign().mean().item())
            with torch.no_grad():
                spread = gen_avg(fixed_z).std(0).mean().item()
            print(f"step {step + 1:2d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  spread {spread:.4f}")


if __name__ == "__main__":
    main()
