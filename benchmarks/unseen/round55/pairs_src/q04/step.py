import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ResBlock(nn.Module):

    def __init__(self, ch):
        super().__init__()
        self.norm = nn.GroupNorm(2, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm(x)))
        return x + self.conv2(F.silu(h))


class Encoder(nn.Module):

    def __init__(self, ch=8, latent=4):
        super().__init__()
        self.stem = nn.Conv2d(1, ch, 4, 2, 1)
        self.block = ResBlock(ch)
        self.to_stats = nn.Conv2d(ch, 2 * latent, 4, 2, 1)

    def forward(self, x):
        return self.to_stats(self.block(self.stem(x))).chunk(2, dim=1)


class Decoder(nn.Module):

    def __init__(self, ch=8, latent=4):
        super().__init__()
        self.stem = nn.ConvTranspose2d(latent, ch, 4, 2, 1)
        self.block = ResBlock(ch)
        self.out = nn.ConvTranspose2d(ch, 1, 4, 2, 1)

    def forward(self, z):
        return self.out(self.block(self.stem(z)))


class VAE(nn.Module):

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x, noise):
        mu, logvar = self.encoder(x)
        logvar = logvar.clamp(-8.0, 8.0)
        z = mu + noise * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


class Annealer:

    def __init__(self, start, total, cycles=1, top=1.0):
        self.start = start
        self.total = total // cycles
        self.top = top
        self.t = 0

    def step(self):
        self.t += 1

    def weight(self):
        frac = (self.t % self.total) / (0.5 * self.total)
        return self.start + (self.top - self.start) * min(1.0, frac)


def elbo(recon, x, mu, logvar, weight):
    nll = F.binary_cross_entropy_with_logits(recon, x, reduction="sum") / x.size(0)
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)
    return nll + weight * kl, nll, kl


def run(steps=12):
    torch.manual_seed(1)
    device = torch_xla.device()
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    annealer = Annealer(0.1, 20)
    log = []
    for step in range(steps):
        x = torch.rand(4, 1, 16, 16).to(device)
        noise = torch.randn(4, 4, 4, 4).to(device)
        recon, mu, logvar = model(x, noise)
        loss, nll, kl = elbo(recon, x, mu, logvar, annealer.weight())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        annealer.step()
        torch_xla.sync()
        log.append((loss.detach(), nll.detach(), kl.detach()))
    for row in log:
        print(["%.3f" % v.item() for v in row])


if __name__ == "__main__":
    run()
