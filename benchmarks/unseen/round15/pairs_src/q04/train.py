"""Adversarial surrogate for electromagnetic shower profiles (critic with gradient regularisation)."""
import torch
from torch import autograd, nn, optim
import torch_xla
import torch_xla.debug.metrics as met
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

LAYERS = 24
NOISE = 8


def shower_profiles(n):
    depth = torch.arange(1, LAYERS + 1, dtype=torch.float32)
    energy = torch.rand(n, 1) * 90 + 10
    a = 1.0 + 0.5 * energy.log() + 0.1 * torch.randn(n, 1)
    b = 0.5 + 0.02 * torch.randn(n, 1)
    shape = (b * depth).pow(a - 1) * torch.exp(-b * depth)
    shape = shape / shape.sum(1, keepdim=True)
    return energy / 100, shape


class Generator(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(NOISE + 1, h), nn.LeakyReLU(0.2),
                                 nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, LAYERS))

    def forward(self, z, e):
        return torch.softmax(self.net(torch.cat([z, e], 1)), dim=1)


class Critic(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.inp = nn.Linear(LAYERS + 1, h)
        self.mid = nn.Linear(h, h)
        self.out = nn.Linear(h, 1)

    def forward(self, x, e):
        h = nn.functional.softplus(self.inp(torch.cat([x * 10, e], 1)))
        h = nn.functional.softplus(self.mid(h))
        return self.out(h).squeeze(1)


class Trainer:
    lazy_interval = 4
    gamma = 2.0

    def __init__(self, device):
        self.device = device
        self.g, self.d = Generator().to(device), Critic().to(device)
        self.og = optim.SGD(self.g.parameters(), lr=0.02)
        self.od = optim.SGD(self.d.parameters(), lr=0.02)
        self.calls = 0

    def smoothness(self, x, e):
        x = x.detach().requires_grad_(True)
        score = self.d(x, e).sum()
        grad, = autograd.grad(score, x, create_graph=True)
        return grad.square().sum(1).mean()

    def critic_loss(self, e, real):
        z = torch.randn(real.size(0), NOISE, device=self.device)
        with torch.no_grad():
            fake = self.g(z, e)
        loss = nn.functional.softplus(self.d(fake, e)).mean() \
            + nn.functional.softplus(-self.d(real, e)).mean()
        if self.calls % self.lazy_interval == 0:
            loss = loss + 0.5 * self.gamma * self.lazy_interval * self.smoothness(real, e)
        return loss

    def generator_loss(self, e):
        z = torch.randn(e.size(0), NOISE, device=self.device)
        return nn.functional.softplus(-self.d(self.g(z, e), e)).mean()

    def __call__(self, e, real):
        self.calls += 1
        ld = self.critic_loss(e, real)
        self.od.zero_grad()
        ld.backward()
        self.od.step()
        lg = self.generator_loss(e)
        self.og.zero_grad()
        lg.backward()
        self.og.step()
        return ld.detach(), lg.detach()


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    data = TensorDataset(*shower_profiles(32 * 14))
    loader = MpDeviceLoader(DataLoader(data, batch_size=32, shuffle=True, drop_last=True), device)
    trainer = Trainer(device)
    for epoch in range(3):
        tot_d, tot_g, n = 0.0, 0.0, 0
        for e, real in loader:
            ld, lg = trainer(e, real)
            n += 1
        print(f"epoch {epoch}: critic {ld.item():.4f} generator {lg.item():.4f} after {n} batches, "
              f"{met.counter_value('UncachedCompile')} compilations")


if __name__ == "__main__":
    main()
