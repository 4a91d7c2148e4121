"""Small GAN on 8x8 textures: several critic updates per generator update, lazy R1, averaged generator."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Z, BATCH = 12, 24
N_CRITIC, R1_EVERY, R1_GAMMA = 3, 12, 1.0
EMA_DECAY, SAMPLE_EVERY = 0.98, 60
ITERS = 240


class Generator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(Z, ch * 16)
        self.up = nn.ConvTranspose2d(ch, ch, 4, stride=2, padding=1)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, z):
        h = F.relu(self.fc(z)).view(-1, self.ch, 4, 4)
        return torch.tanh(self.out(F.relu(self.up(h))))


class Critic(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 4, stride=2, padding=1)
        self.fc = nn.Linear(ch * 16, 1)

    def forward(self, x):
        h = F.softplus(self.c1(x))
        h = F.softplus(self.c2(h))
        return self.fc(h.flatten(1)).squeeze(1)


class TextureStream:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.grid = torch.arange(8.0)

    def real(self):
        f = torch.rand(BATCH, 1, 1, 1, generator=self.g) * 2 + 0.5
        ph = torch.rand(BATCH, 1, 1, 1, generator=self.g) * 6.28
        return torch.sin(f * self.grid.view(1, 1, 1, 8) + ph).expand(-1, 1, 8, 8).contiguous()

    def noise(self, n=BATCH):
        return torch.randn(n, Z, generator=self.g)


class GanTrainer:
    def __init__(self):
        torch.manual_seed(0)
        self.dev = torch_xla.device()
        self.stream = TextureStream(13)
        self.G, self.D = Generator().to(self.dev), Critic().to(self.dev)
        self.G_avg = copy.deepcopy(self.G).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.z_show = self.stream.noise(16).to(self.dev)

    def critic_step(self, penalty):
        real = self.stream.real().to(self.dev)
        with torch.no_grad():
            fake = self.G(self.stream.noise().to(self.dev))
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(real)).mean()
        if penalty:
            x = real.detach().requires_grad_(True)
            (grad,) = torch.autograd.grad(self.D(x).sum(), x, create_graph=True)
            r1 = grad.pow(2).sum((1, 2, 3)).mean()
            loss = loss + 0.5 * R1_GAMMA * R1_EVERY * r1
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss

    def generator_step(self):
        loss = F.softplus(-self.D(self.G(self.stream.noise().to(self.dev)))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for avg, p in zip(self.G_avg.parameters(), self.G.parameters()):
                avg.mul_(EMA_DECAY).add_(p, alpha=1 - EMA_DECAY)
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def show(self):
        img = self.G_avg(self.z_show)
        torch_xla.sync()
        return img.cpu()

    def run(self):
        g_loss = None
        for it in range(1, ITERS + 1):
            d_loss = self.critic_step(penalty=it % R1_EVERY == 0)
            if it % N_CRITIC == 0:
                g_loss = self.generator_step()
            if it % SAMPLE_EVERY == 0:
                img = self.show()
                print(f"it {it} d {d_loss.item():.3f} g {g_loss.item():.3f} sample std {img.std():.3f}")


if __name__ == "__main__":
    GanTrainer().run()
