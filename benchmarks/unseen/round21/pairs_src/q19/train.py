import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class VAE(nn.Module):
    def __init__(self, d_in=16, hidden=20, latent=4):
        super().__init__()
        self.enc = nn.Linear(d_in, hidden)
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.dec = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, d_in))

    def forward(self, x, noise):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + noise * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def elbo(x, recon, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return rec + beta * kl


def main():
    torch.manual_seed(14)
    device = torch_xla.device()
    model = VAE().to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    warmup = 5
    for step in range(8):
        x = torch.randn(12, 16).cumsum(1) / 4
        noise = torch.randn(12, 4)
        x, noise = x.to(device), noise.to(device)
        beta = min(1.0, (step + 1) / warmup)
        optim.zero_grad()
        recon, mu, logvar = model(x, noise)
        loss = elbo(x, recon, mu, logvar, beta)
        loss.backward()
        optim.step()
        torch_xla.sync()
        print(step, round(beta, 2), round(loss.item(), 4))


if __name__ == "__main__":
    main()
