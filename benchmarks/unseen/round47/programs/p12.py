"""Beat generator: a small 1-D GAN on ECG like beats with lazy R1, G every other step and a weight EMA."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LENGTH = 64
Z_DIM = 12
BATCH = 16


def beats(n, gen):
    """P wave, QRS complex and T wave as three gaussians with jitter."""
    t = torch.linspace(0, 1, LENGTH)
    u = lambda lo, hi: lo + (hi - lo) * torch.rand(n, 1, generator=gen)
    bump = lambda c, w, a: a * torch.exp(-0.5 * ((t - c) / w) ** 2)
    x = bump(u(0.18, 0.24), u(0.03, 0.04), u(0.1, 0.2))
    x = x - bump(u(0.41, 0.43), u(0.010, 0.014), u(0.1, 0.3))
    x = x + bump(u(0.44, 0.46), u(0.012, 0.018), u(0.9, 1.2))
    x = x + bump(u(0.66, 0.74), u(0.05, 0.07), u(0.2, 0.4))
    return (x + 0.02 * torch.randn(n, LENGTH, generator=gen)).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(Z_DIM, ch * (LENGTH // 8))
        self.blocks = nn.ModuleList([nn.Conv1d(ch, ch, 5, padding=2) for _ in range(3)])
        self.out = nn.Conv1d(ch, 1, 5, padding=2)

    def forward(self, z):
        h = self.fc(z).view(z.shape[0], self.ch, LENGTH // 8)
        for conv in self.blocks:
            h = h.repeat_interleave(2, dim=2)
            h = F.leaky_relu(conv(h), 0.2)
        return self.out(h)


class Critic(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.convs = nn.ModuleList([
            nn.Conv1d(1, ch, 5, stride=2, padding=2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2),
        ])
        self.fc = nn.Linear(ch * (LENGTH // 8), 1)

    def forward(self, x):
        for conv in self.convs:
            x = F.softplus(conv(x))
        return self.fc(x.flatten(1)).squeeze(1)


@torch.no_grad()
def update_ema(ema, net, beta):
    for p_ema, p in zip(ema.parameters(), net.parameters()):
        p_ema.lerp_(p, 1.0 - beta)


class Trainer:
    def __init__(self, device, d_reg_every=8, r1_gamma=2.0, g_every=2):
        self.device = device
        self.G = Generator().to(device)
        self.D = Critic().to(device)
        self.G_ema = copy.deepcopy(self.G).requires_grad_(False)
        mb = d_reg_every / (d_reg_every + 1)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=1e-3 * mb, betas=(0.0, 0.99 ** mb))
        self.d_reg_every = d_reg_every
        self.r1_gamma = r1_gamma
        self.g_every = g_every

    def d_step(self, real):
        z = torch.randn(real.shape[0], Z_DIM, device=self.device)
        with torch.no_grad():
            fake = self.G(z)
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(real)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def d_reg_step(self, real):
        real = real.detach().requires_grad_(True)
        score = self.D(real)
        (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
        penalty = grad.square().sum(dim=(1, 2)).mean()
        self.opt_d.zero_grad()
        (penalty * (0.5 * self.r1_gamma * self.d_reg_every)).backward()
        self.opt_d.step()
        return penalty.detach()

    def g_step(self, n):
        z = torch.randn(n, Z_DIM, device=self.device)
        self.D.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(z))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        self.D.requires_grad_(True)
        return loss.detach()


def main(steps=60, sample_every=12):
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(12)
    device = torch_xla.device()
    data = beats(512, gen)
    trainer = Trainer(device)
    z_fixed = torch.randn(8, Z_DIM, generator=gen).to(device)
    torch_xla.sync()

    for it in range(steps):
        idx = torch.randint(0, len(data), (BATCH,), generator=gen)
        real = data[idx].to(device)

        d_loss = trainer.d_step(real)
        torch_xla.sync()

        if it % trainer.d_reg_every == 0:
            r1 = trainer.d_reg_step(real)
            torch_xla.sync()

        if it % trainer.g_every == 0:
            g_loss = trainer.g_step(BATCH)
            # short half life while the generator still moves fast
            beta = min(0.5 ** (BATCH / max(200.0, 40.0 * it)), 0.998)
            update_ema(trainer.G_ema, trainer.G, beta)
            torch_xla.sync()

        if (it + 1) % sample_every == 0:
            with torch.no_grad():
                grid = trainer.G_ema(z_fixed).cpu()
            peak, spread = grid.amax(dim=2).mean().item(), grid.std(dim=0).mean().item()
            r_pos = grid.argmax(dim=2).float().mean().item() / LENGTH
            xm.master_print(f"it {it + 1:3d} D {d_loss.item():.3f} G {g_loss.item():.3f} r1 {r1.item():.4f} "
                            f"peak {peak:.3f} spread {spread:.3f} R at {r_pos:.3f} (data 0.450)")


if __name__ == "__main__":
    main()
