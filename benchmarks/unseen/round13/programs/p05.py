"""Progressive GAN on synthetic textures: 4x4 -> 8x8 -> 16x16, one stage after the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LATENT = 16
WIDTH = 12


def upscale(x):
    n, c, h, w = x.shape
    return x.view(n, c, h, 1, w, 1).expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


class Generator(nn.Module):
    def __init__(self, stages=3):
        super().__init__()
        self.start = nn.Linear(LATENT, WIDTH * 16)
        self.blocks = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(stages))
        self.to_rgb = nn.ModuleList(nn.Conv2d(WIDTH, 3, 1) for _ in range(stages))

    def forward(self, z, stage, alpha):
        x = self.start(z).view(-1, WIDTH, 4, 4)
        x = F.leaky_relu(self.blocks[0](x), 0.2)
        prev = x
        for s in range(1, stage + 1):
            prev = upscale(x)
            x = F.leaky_relu(self.blocks[s](prev), 0.2)
        rgb = self.to_rgb[stage](x)
        if stage > 0:
            rgb = torch.lerp(self.to_rgb[stage - 1](prev), rgb, alpha)
        return torch.tanh(rgb)


class Critic(nn.Module):
    def __init__(self, stages=3):
        super().__init__()
        self.from_rgb = nn.ModuleList(nn.Conv2d(3, WIDTH, 1) for _ in range(stages))
        self.blocks = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(stages))
        self.score = nn.Linear(WIDTH * 16, 1)

    def forward(self, img, stage, alpha):
        x = F.leaky_relu(self.from_rgb[stage](img), 0.2)
        for s in range(stage, 0, -1):
            x = F.avg_pool2d(F.leaky_relu(self.blocks[s](x), 0.2), 2)
            if s == stage:
                skip = F.leaky_relu(self.from_rgb[s - 1](F.avg_pool2d(img, 2)), 0.2)
                x = torch.lerp(skip, x, alpha)
        x = F.leaky_relu(self.blocks[0](x), 0.2)
        return self.score(x.flatten(1))


class Textures:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def sample(self, n, size):
        phase = torch.rand(n, 3, 1, 1, generator=self.gen) * 6.28
        grid = torch.linspace(0, 6.28, size)
        return torch.sin(grid.view(1, 1, size, 1) + grid.view(1, 1, 1, size) + phase)

    def latent(self, n):
        return torch.randn(n, LATENT, generator=self.gen)


class StageTrainer:
    def __init__(self, device, batch=8):
        self.device, self.batch = device, batch
        self.G, self.D = Generator().to(device), Critic().to(device)
        self.data = Textures(2)

    def critic_step(self, stage, alpha):
        real = self.data.sample(self.batch, 4 * 2 ** stage).to(self.device)
        z = self.data.latent(self.batch).to(self.device)
        with torch.no_grad():
            fake = self.G(z, stage, alpha)
        loss = F.softplus(self.D(fake, stage, alpha)).mean() + F.softplus(-self.D(real, stage, alpha)).mean()
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()
        torch_xla.sync()
        return loss

    def generator_step(self, stage, alpha):
        z = self.data.latent(self.batch).to(self.device)
        loss = F.softplus(-self.D(self.G(z, stage, alpha), stage, alpha)).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        torch_xla.sync()
        return loss

    def run_stage(self, stage, steps, n_critic=2):
        self.g_opt = torch.optim.RMSprop(self.G.parameters(), lr=5e-4)
        self.d_opt = torch.optim.RMSprop(self.D.parameters(), lr=5e-4)
        for i in range(steps):
            alpha = torch.full((self.batch, 1, 1, 1), min(1.0, (i + 1) / (steps // 2))).to(self.device)
            for _ in range(n_critic):
                d_loss = self.critic_step(stage, alpha)
            g_loss = self.generator_step(stage, alpha)
            if i % 3 == 0:
                print(f"stage {stage} iter {i} d {d_loss.item():.4f} g {g_loss.item():.4f}")


def main():
    torch.manual_seed(0)
    trainer = StageTrainer(torch_xla.device())
    for stage in range(3):
        trainer.run_stage(stage, steps=6)
    print("done")


if __name__ == "__main__":
    main()
