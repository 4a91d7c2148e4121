"""CTGAN-like generator for a small customer table.

WGAN critic over packs of rows, generator every second iteration, gradient
penalty every fourth.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONT = 3
CATS = (4, 3)
ROW = CONT + sum(CATS)
PAC = 4
BATCH = 32
LATENT = 8
ITERS = 60
N_CRITIC = 2
GP_EVERY = 4
REPORT_EVERY = 12


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    segment = rng.choice(CATS[0], size=n, p=[0.5, 0.25, 0.15, 0.1])
    channel = (segment + rng.choice(2, size=n)) % CATS[1]
    age = rng.normal(35 + 8 * segment, 5)
    income = np.exp(rng.normal(3 + 0.2 * segment, 0.3))
    visits = rng.poisson(2 + channel).astype(np.float64)
    cont = np.stack([age, income, visits], 1)
    cont = (cont - cont.mean(0)) / cont.std(0)
    onehot = np.concatenate([np.eye(CATS[0])[segment], np.eye(CATS[1])[channel]], 1)
    return torch.tensor(np.concatenate([cont, onehot], 1), dtype=torch.float32)


class Residual(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.norm = nn.LayerNorm(n_out)

    def forward(self, x):
        return torch.cat([F.relu(self.norm(self.fc(x))), x], dim=1)


class Generator(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.body = nn.Sequential(Residual(LATENT, dim), Residual(LATENT + dim, dim))
        self.out = nn.Linear(LATENT + 2 * dim, ROW)

    def forward(self, z):
        raw = self.out(self.body(z))
        parts = [torch.tanh(raw[:, :CONT]) * 3.0]
        at = CONT
        for n in CATS:
            parts.append(F.gumbel_softmax(raw[:, at:at + n], tau=0.3))
            at += n
        return torch.cat(parts, dim=1)


class Critic(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(ROW * PAC, dim), nn.LeakyReLU(0.2),
            nn.Linear(dim, dim), nn.LeakyReLU(0.2),
            nn.Linear(dim, 1),
        )

    def forward(self, rows):
        return self.net(rows.reshape(-1, ROW * PAC))


def gradient_penalty(critic, real, fake):
    mix = torch.rand(real.shape[0] // PAC, 1, 1, device=real.device)
    mix = mix.expand(-1, PAC, ROW).reshape_as(real)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
    norm = (grad.reshape(-1, PAC * ROW).square().sum(1) + 1e-8).sqrt()
    return (norm - 1).square().mean()


def latents(device):
    return torch.randn(BATCH, LATENT, device=device)


def main():
    torch.manual_seed(30)
    device = torch_xla.device()
    table = make_table(480, seed=30)
    loader = torch.utils.data.DataLoader(table, batch_size=BATCH, shuffle=True, drop_last=True)

    gen, critic = Generator().to(device), Critic().to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    scheds = [
        torch.optim.lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=ITERS)
        for o in (opt_g, opt_d)
    ]

    it = 0
    while it < ITERS:
        for real in loader:
            it += 1
            real = real.to(device)
            with torch.no_grad():
                fake = gen(latents(device))
            d_loss = critic(fake).mean() - critic(real).mean()
            if it % GP_EVERY == 0:
                d_loss = d_loss + 10.0 * GP_EVERY * gradient_penalty(critic, real, fake)
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()
            xm.mark_step()

            if it % N_CRITIC == 0:
                critic.requires_grad_(False)
                g_loss = -critic(gen(latents(device))).mean()
                opt_g.zero_grad()
                g_loss.backward()
                opt_g.step()
                critic.requires_grad_(True)
                xm.mark_step()
            for s in scheds:
                s.step()

            if it % REPORT_EVERY == 0:
                with torch.no_grad():
                    rows = torch.cat([gen(latents(device)) for _ in range(2)])
                    share = rows[:, CONT:].mean(0)
                xm.mark_step()
                gap = (share.cpu() - table[:, CONT:].mean(0)).abs().max()
                print(f"iter {it:3d}  critic {d_loss.item():+.3f}  gen {g_loss.item():+.3f}  worst share gap {gap:.3f}")
            if it == ITERS:
                break


if __name__ == "__main__":
    main()
