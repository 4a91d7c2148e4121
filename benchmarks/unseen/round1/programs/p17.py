import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LATENT, N_CRITIC = 4, 3


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class GAN:
    def __init__(self, device):
        self.device = device
        self.G, self.D = mlp(LATENT, 16, 2).to(device), mlp(2, 16, 1).to(device)
        self.og = torch.optim.RMSprop(self.G.parameters(), lr=5e-4)
        self.od = torch.optim.RMSprop(self.D.parameters(), lr=5e-4)

    def noise(self, n):
        return torch.randn(n, LATENT, device=self.device)

    def critic_step(self, real):
        fake = self.G(self.noise(len(real))).detach()
        loss = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake)).mean()
        self.od.zero_grad()
        loss.backward()
        self.od.step()
        xm.mark_step()
        return loss

    def generator_step(self, n):
        loss = F.softplus(-self.D(self.G(self.noise(n)))).mean()
        self.og.zero_grad()
        loss.backward()
        self.og.step()
        xm.mark_step()
        return loss


gan = GAN(xm.xla_device())
for it in range(12):
    real = torch.randn(16, 2) * 0.3 + torch.tensor([1.0, -1.0])
    d = gan.critic_step(real.to(gan.device))
    if it % N_CRITIC == N_CRITIC - 1:
        g = gan.generator_step(16)
        print(it, "D", round(d.item(), 3), "G", round(g.item(), 3))
