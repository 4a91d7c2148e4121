"""Waveform GAN for synthetic foot-step sounds (conditional, one-dimensional convolutions).
Discriminator step with lazy R1 regularisation (every R1_EVERY steps, as in StyleGAN2),
then generator step; both by Adam with beta1 = 0."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, SURFACES, LATENT, CH, BATCH = 16, 3, 4, 4, 4
R1_EVERY, R1_GAMMA = 4, 5.0


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.surface = nn.Embedding(SURFACES, LATENT)
        self.start = nn.Linear(2 * LATENT, CH * SAMPLES // 2)
        self.c1 = nn.Conv1d(CH, CH, 3, padding=1)
        self.out = nn.Conv1d(CH, 1, 3, padding=1)

    def forward(self, z, surface):
        h = self.start(torch.cat([z, self.surface(surface)], dim=1))
        h = h.view(-1, CH, SAMPLES // 2).repeat_interleave(2, dim=2)
        return torch.tanh(self.out(F.leaky_relu(self.c1(h), 0.2)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(1, CH, 4, stride=2, padding=1)
        self.fc = nn.Linear(CH * SAMPLES // 2, 6)
        self.surface = nn.Embedding(SURFACES, 6)
        self.out = nn.Linear(6, 1)

    def forward(self, wav, surface):
        h = F.softplus(self.c1(wav))
        h = torch.tanh(self.fc(h.flatten(1)))
        return self.out(h).squeeze(1) + (h * self.surface(surface)).sum(1)


def d_loss_fn(disc, real, fake, surface, step):
    if step % R1_EVERY == 0:
        real = real.detach().requires_grad_(True)
    logit_real = disc(real, surface)
    logit_fake = disc(fake.detach(), surface)
    loss = F.softplus(-logit_real).mean() + F.softplus(logit_fake).mean()
    if step % R1_EVERY == 0:
        (grad,) = torch.autograd.grad(logit_real.sum(), real, create_graph=True)
        penalty = grad.square().sum(dim=(1, 2)).mean()
        loss = loss + 0.5 * R1_GAMMA * R1_EVERY * penalty
    return loss


def pending(pairs, extra):
    out = list(extra)
    for mod, opt in pairs:
        for p in mod.parameters():
            out += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(13)
    dev = torch_xla.device()
    gen, disc = Generator().to(dev), Discriminator().to(dev)
    g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.0, 0.99))
    rng = torch.Generator().manual_seed(6)
    torch_xla.sync()
    for step in range(6):
        real = torch.randn(BATCH, 1, SAMPLES, generator=rng).to(dev)
        surface = torch.randint(0, SURFACES, (BATCH,), generator=rng).to(dev)
        z = torch.randn(BATCH, LATENT, generator=rng).to(dev)

        fake = gen(z, surface)
        d_opt.zero_grad()
        d_loss = d_loss_fn(disc, real, fake, surface, step)
        d_loss.backward()
        d_opt.step()

        disc.requires_grad_(False)
        g_opt.zero_grad()
        g_loss = F.softplus(-disc(fake, surface)).mean()
        g_loss.backward()
        g_opt.step()
        disc.requires_grad_(True)

        name = {3: "a.hlo", 4: "b.hlo"}.get(step)
        if name:
            live = pending([(gen, g_opt), (disc, d_opt)], [d_loss, g_loss])
            with open(os.path.join(HERE, name), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, d_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()
