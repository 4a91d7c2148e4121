"""Non-saturating GAN on 16x16 textures with R1 regularisation, torch_xla."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Z_DIM = 12
BATCH = 8
R1_GAMMA = 2.0
D_REG_INTERVAL = 4


class Generator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(Z_DIM, 2 * ch * 16)
        self.up1 = nn.ConvTranspose2d(2 * ch, ch, 4, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(ch)
        self.up2 = nn.ConvTranspose2d(ch, 3, 4, stride=2, padding=1)

    def forward(self, z):
        x = self.fc(z).view(-1, 2 * self.ch, 4, 4)
        x = F.relu(x)
        x = F.relu(self.bn1(self.up1(x)))
        return torch.tanh(self.up2(x))


class Discriminator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.conv1 = nn.Conv2d(3, ch, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(ch, 2 * ch, 4, stride=2, padding=1)
        self.fc = nn.Linear(2 * ch * 16, 1)

    def forward(self, x):
        x = F.softplus(self.conv1(x))
        x = F.softplus(self.conv2(x))
        return self.fc(x.flatten(1)).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    score = disc(real).sum()
    grad, = torch.autograd.grad(score, real, create_graph=True)
    return grad.square().sum(dim=(1, 2, 3)).mean()


class Trainer:
    def __init__(self, device):
        self.device = device
        self.gen = Generator().to(device).train()
        self.disc = Discriminator().to(device).train()
        c = D_REG_INTERVAL / (D_REG_INTERVAL + 1)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.disc.parameters(), lr=2e-3 * c, betas=(0.0, 0.99 ** c))

    def d_step(self, real, step):
        self.opt_d.zero_grad()
        with torch.no_grad():
            fake = self.gen(torch.randn(real.shape[0], Z_DIM, device=self.device))
        loss = F.softplus(self.disc(fake)).mean() + F.softplus(-self.disc(real)).mean()
        loss.backward()
        if step % D_REG_INTERVAL == 0:
            penalty = r1_penalty(self.disc, real)
            (0.5 * R1_GAMMA * D_REG_INTERVAL * penalty).backward()
        self.opt_d.step()
        return loss.detach()

    def g_step(self, n):
        self.opt_g.zero_grad()
        self.disc.requires_grad_(False)
        fake = self.gen(torch.randn(n, Z_DIM, device=self.device))
        loss = F.softplus(-self.disc(fake)).mean()
        loss.backward()
        self.disc.requires_grad_(True)
        self.opt_g.step()
        return loss.detach()

    def step(self, real, step):
        d_loss = self.d_step(real, step)
        g_loss = self.g_step(real.shape[0])
        return d_loss, g_loss


def main(steps=10):
    torch.manual_seed(11)
    device = torch_xla.device()
    trainer = Trainer(device)
    data = torch.rand(steps, BATCH, 3, 16, 16) * 2 - 1
    torch_xla.sync()
    for step in range(steps):
        d_loss, g_loss = trainer.step(data[step].to(device), step)
        torch_xla.sync()
        print(f"{step} d {d_loss.item():.4f} g {g_loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
