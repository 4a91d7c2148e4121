"""Adversarial training for handwritten glyphs, hinge loss, one D and one G update per step."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

Z, SIDE, BATCH = 12, 16, 4


def up(cin, cout):
    return nn.Sequential(
        nn.ConvTranspose2d(cin, cout, 4, stride=2, padding=1, bias=False),
        nn.GroupNorm(2, cout),
        nn.LeakyReLU(0.2),
    )


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z, 16 * 4 * 4)
        self.net = nn.Sequential(up(16, 8), up(8, 4), nn.Conv2d(4, 1, 3, padding=1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 16, 4, 4))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
        )
        self.score = nn.Linear(16 * 4 * 4, 1)

    def forward(self, x):
        return self.score(self.body(x).flatten(1)).squeeze(1)


def hinge_d(real, fake):
    return F.relu(1.2 - real).mean() + F.relu(1.2 + fake).mean()


def step(gen, critic, g_opt, d_opt, images, noise):
    fake = gen(noise)

    d_loss = hinge_d(critic(images), critic(fake.detach()))
    g_opt.zero_grad()
    d_opt.zero_grad()
    d_loss.backward(retain_graph=True)
    d_opt.step()

    g_loss = -critic(fake).mean()
    g_loss.backward()
    g_opt.step()
    return d_loss.detach(), g_loss.detach()


def main(iters=4):
    torch.manual_seed(5)
    dev = xm.xla_device()
    gen, critic = Generator().to(dev), Critic().to(dev)
    g_opt = torch.optim.RMSprop(gen.parameters(), lr=5e-4)
    d_opt = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    torch_xla.sync()
    history = []
    for i in range(iters):
        images = (torch.rand(BATCH, 1, SIDE, SIDE) * 2 - 1).to(dev)
        noise = torch.randn(BATCH, Z).to(dev)
        d_loss, g_loss = step(gen, critic, g_opt, d_opt, images, noise)
        torch_xla.sync()
        history.append((d_loss.item(), g_loss.item()))
    for i, (d, g) in enumerate(history):
        print(f"{i:3d}  d {d:+.4f}  g {g:+.4f}")


if __name__ == "__main__":
    main()
