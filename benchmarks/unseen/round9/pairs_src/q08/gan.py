import torch
from torch import nn
import torch.nn.functional as F
import torch_xla

HP = {"z": 16, "batch": 8, "g_lr": 2e-3, "d_lr": 2e-3, "betas": (0.0, 0.99),
      "r1_gamma": 1.0, "d_reg_every": 4, "steps": 16, "log_every": 5}


class Generator(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(z, 32), nn.LeakyReLU(0.2), nn.Linear(32, 16 * 4 * 4))
        self.up = nn.ConvTranspose2d(16, 12, 4, 2, 1)
        self.conv2 = nn.Conv2d(12, 8, 3, padding=1)
        self.rgb = nn.Conv2d(8, 3, 1)

    def forward(self, z):
        x = self.mapping(z).view(-1, 16, 4, 4)
        x = F.leaky_relu(self.up(x), 0.2)
        x = F.leaky_relu(self.conv2(x), 0.2)
        return torch.tanh(self.rgb(x))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, 1, 1)
        self.c2 = nn.Conv2d(8, 16, 3, 2, 1)
        self.f1 = nn.Linear(16 * 4 * 4, 24)
        self.f2 = nn.Linear(24, 1)

    def forward(self, x):
        x = F.softplus(self.c1(x))
        x = F.softplus(self.c2(x))
        return self.f2(F.softplus(self.f1(x.flatten(1))))


def r1_penalty(d, real):
    real = real.detach().requires_grad_(True)
    score = d(real).sum()
    grad, = torch.autograd.grad(score, real, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


class GANLoop:
    def __init__(self, hp):
        self.hp = hp
        self.device = torch_xla.device()
        self.g = Generator(hp["z"]).to(self.device)
        self.d = Discriminator().to(self.device)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=hp["g_lr"], betas=hp["betas"])
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=hp["d_lr"], betas=hp["betas"])
        self.cpu_gen = torch.Generator().manual_seed(21)

    def real_batch(self):
        base = torch.rand(self.hp["batch"], 3, 1, 1, generator=self.cpu_gen) * 2 - 1
        noise = torch.randn(self.hp["batch"], 3, 8, 8, generator=self.cpu_gen)
        return (base + 0.1 * noise).to(self.device)

    def latents(self):
        return torch.randn(self.hp["batch"], self.hp["z"], generator=self.cpu_gen).to(self.device)

    def d_step(self, step):
        real, fake = self.real_batch(), self.g(self.latents()).detach()
        loss = F.softplus(-self.d(real)).mean() + F.softplus(self.d(fake)).mean()
        if step % self.hp["d_reg_every"] == 0:
            loss = loss + self.hp["r1_gamma"] / 2 * self.hp["d_reg_every"] * r1_penalty(self.d, real)
        self.d_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.d_opt.step()
        return loss.detach()

    def g_step(self):
        loss = F.softplus(-self.d(self.g(self.latents()))).mean()
        self.g_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.g_opt.step()
        return loss.detach()

    def fit(self):
        for step in range(self.hp["steps"]):
            d_loss = self.d_step(step)
            g_loss = self.g_step()
            torch_xla.sync()
            if step % self.hp["log_every"] == 0:
                print(f"kimg {step * self.hp['batch'] / 1000:.3f} D {d_loss.item():.4f} G {g_loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(20)
    GANLoop(HP).fit()
