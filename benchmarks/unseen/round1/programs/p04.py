import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class VAE(nn.Module):
    def __init__(self, d=20, z=4):
        super().__init__()
        self.enc = nn.Linear(d, 32)
        self.mu = nn.Linear(32, z)
        self.logvar = nn.Linear(32, z)
        self.dec = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


class Trainer:
    def __init__(self, warmup=7, device="xla"):
        self.device = torch.device(device)
        self.model = VAE().to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.warmup = warmup
        self.step = 0

    @property
    def beta(self):
        return min(1.0, self.step / self.warmup)

    def train_step(self, x):
        recon, mu, logvar = self.model(x)
        rec = F.mse_loss(recon, x)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        loss = rec + kl * self.beta
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        self.step += 1
        return rec, kl


trainer = Trainer()
data = torch.randn(8, 20)
for i in range(12):
    rec, kl = trainer.train_step(data.to("xla"))
    print(f"{i:2d} beta={trainer.beta:.2f} rec={rec.item():.4f} kl={kl.item():.4f}")
