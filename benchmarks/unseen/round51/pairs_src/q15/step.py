"""Conditional GAN for calorimeter shower profiles (energy per layer, given the
incident energy and angle). Non-saturating loss, lazily applied R1 penalty."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LAYERS, N_COND, N_Z, HID = 18, 3, 6, 16
BATCH = 14
R1_GAMMA, R1_EVERY = 2.0, 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(N_Z + N_COND, HID)
        self.fc2 = nn.Linear(HID, HID)
        self.shape = nn.Linear(HID, LAYERS)
        self.total = nn.Linear(HID, 1)

    def forward(self, z, cond):
        h = F.leaky_relu(self.fc1(torch.cat([z, cond], dim=1)), 0.2)
        h = F.leaky_relu(self.fc2(h), 0.2)
        fractions = torch.softmax(self.shape(h), dim=1)
        return fractions * F.softplus(self.total(h)) * LAYERS


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(LAYERS + 1, HID)
        self.out = nn.Linear(HID, 1)
        self.cond = nn.Linear(N_COND, HID, bias=False)

    def forward(self, x, cond):
        x = torch.cat([x, x.sum(dim=1, keepdim=True) / LAYERS], dim=1)
        h = F.leaky_relu(self.fc1(x), 0.2)
        return self.out(h).squeeze(1) + (h * self.cond(cond)).sum(dim=1)


def r1_penalty(disc, real, cond):
    real = real.detach().requires_grad_(True)
    score = disc(real, cond)
    (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    return grad.pow(2).sum(dim=1).mean()


def set_requires_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def train_step(step, gen, disc, opt_g, opt_d, real, cond):
    set_requires_grad(disc, True)
    opt_d.zero_grad(set_to_none=True)
    z = torch.randn(real.shape[0], N_Z, device=real.device)
    with torch.no_grad():
        fake = gen(z, cond)
    d_loss = F.softplus(disc(fake, cond)).mean() + F.softplus(-disc(real, cond)).mean()
    if step % R1_EVERY == 0:
        d_loss = d_loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(disc, real, cond)
    d_loss.backward()
    opt_d.step()

    set_requires_grad(disc, False)
    opt_g.zero_grad(set_to_none=True)
    z = torch.randn(real.shape[0], N_Z, device=real.device)
    g_loss = F.softplus(-disc(gen(z, cond), cond)).mean()
    g_loss.backward()
    opt_g.step()
    return d_loss, g_loss


def main():
    out = {3: sys.argv[1], 4: sys.argv[2]} if len(sys.argv) > 2 else {}
    device = torch_xla.device()
    torch.manual_seed(31)
    xm.set_rng_state(32)
    rng = torch.Generator().manual_seed(33)
    gen, disc = Generator().to(device), Discriminator().to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.5, 0.99))
    torch_xla.sync()

    for step in range(1, 6):
        cond = torch.rand(BATCH, N_COND, generator=rng)
        depth = torch.arange(LAYERS).float() / LAYERS
        real = torch.exp(-(depth - cond[:, :1]) ** 2 * 12.0) * (1.0 + 0.1 * torch.randn(BATCH, LAYERS, generator=rng))
        d_loss, g_loss = train_step(step, gen, disc, opt_g, opt_d, real.to(device), cond.to(device))

        if step in out:
            live = [d_loss, g_loss]
            for module, opt in ((gen, opt_g), (disc, opt_d)):
                for p in module.parameters():
                    live += [p.data, p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
            with open(out[step], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, d_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()
