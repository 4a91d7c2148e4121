"""WGAN with an R1 penalty that is applied lazily (every `r1_every` critic updates), toy 12x12 blobs."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

config = {
    "z": 16,
    "ch": 8,
    "bs": 16,
    "n_critic": 3,
    "r1_every": 4,
    "r1_gamma": 2.0,
    "gen_updates": 32,
    "lr": 2e-4,
    "ema": 0.98,
    "seed": 0,
}


class G(nn.Module):
    def __init__(self, z, ch):
        super().__init__()
        self.fc = nn.Linear(z, ch * 2 * 9)
        self.up1 = nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(ch, 1, 4, 2, 1)
        self.ch = ch

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch * 2, 3, 3)
        h = F.leaky_relu(self.up1(h), 0.2)
        return torch.tanh(self.up2(h))


class D(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch * 2, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * 2 * 9, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def blobs(n, gen):
    grid = torch.linspace(-1, 1, 12)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=gen) - 0.5
    s = 0.1 + 0.2 * torch.rand(n, 1, 1, generator=gen)
    img = torch.exp(-((xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2) / s)
    return (img * 2 - 1).unsqueeze(1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg["seed"])
        self.gen = torch.Generator().manual_seed(cfg["seed"])
        self.dev = torch_xla.device()
        self.g, self.d = G(cfg["z"], cfg["ch"]).to(self.dev), D(cfg["ch"]).to(self.dev)
        self.g_avg = G(cfg["z"], cfg["ch"]).to(self.dev)
        self.g_avg.load_state_dict(self.g.state_dict())
        self.og = torch.optim.RMSprop(self.g.parameters(), lr=cfg["lr"])
        self.od = torch.optim.RMSprop(self.d.parameters(), lr=cfg["lr"])
        self.critic_updates = 0
        torch_xla.sync()

    def latent(self):
        return torch.randn(self.cfg["bs"], self.cfg["z"], generator=self.gen).to(self.dev)

    def critic_step(self):
        c = self.cfg
        lazy = self.critic_updates % c["r1_every"] == 0
        real = blobs(c["bs"], self.gen).to(self.dev)
        with torch.no_grad():
            fake = self.g(self.latent())
        if lazy:
            real.requires_grad_(True)
        s_real, s_fake = self.d(real), self.d(fake)
        loss = F.softplus(s_fake).mean() + F.softplus(-s_real).mean()
        if lazy:
            (grad,) = torch.autograd.grad(s_real.sum(), real, create_graph=True)
            penalty = grad.pow(2).sum((1, 2, 3)).mean()
            loss = loss + 0.5 * c["r1_gamma"] * c["r1_every"] * penalty
        self.od.zero_grad(set_to_none=True)
        loss.backward()
        self.od.step()
        self.critic_updates += 1
        torch_xla.sync()
        return loss.detach()

    def gen_step(self):
        for p in self.d.parameters():
            p.requires_grad_(False)
        loss = F.softplus(-self.d(self.g(self.latent()))).mean()
        self.og.zero_grad(set_to_none=True)
        loss.backward()
        self.og.step()
        with torch.no_grad():
            for a, b in zip(self.g_avg.parameters(), self.g.parameters()):
                a.lerp_(b, 1 - self.cfg["ema"])
        for p in self.d.parameters():
            p.requires_grad_(True)
        torch_xla.sync()
        return loss.detach()

    def fit(self):
        for it in range(self.cfg["gen_updates"]):
            for _ in range(self.cfg["n_critic"]):
                ld = self.critic_step()
            lg = self.gen_step()
            if (it + 1) % 8 == 0:
                print(f"iter {it + 1}: D {ld.item():.3f} G {lg.item():.3f}")


if __name__ == "__main__":
    Trainer(config).fit()
