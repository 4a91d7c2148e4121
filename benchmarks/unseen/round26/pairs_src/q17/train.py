import itertools
import torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from sklearn.datasets import load_digits
from torch_xla.distributed.parallel_loader import MpDeviceLoader


def digits(batch_size):
    x = torch.tensor(load_digits().data, dtype=torch.float32) / 16.0
    x = x[: batch_size * 4]
    return torch.utils.data.DataLoader(x, batch_size=batch_size, shuffle=True, drop_last=True)


class Encoder(nn.Module):
    def __init__(self, hid, z):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, stride=2, padding=1)
        self.fc = nn.Linear(6 * 16, hid)
        self.mu = nn.Linear(hid, z)
        self.logvar = nn.Linear(hid, z)

    def forward(self, x):
        h = F.elu(self.conv(x.view(-1, 1, 8, 8))).flatten(1)
        h = F.elu(self.fc(h))
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, hid, z):
        super().__init__()
        self.fc1 = nn.Linear(z, hid)
        self.fc2 = nn.Linear(hid, 64)

    def forward(self, z):
        return self.fc2(F.elu(self.fc1(z)))


class VAE(nn.Module):
    def __init__(self, hid=32, z=6):
        super().__init__()
        self.encoder, self.decoder = Encoder(hid, z), Decoder(hid, z)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        eps = torch.randn_like(mu)
        z = mu + eps * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


class CyclicalBeta:
    """ramp linearly over the first half of each cycle, then hold"""

    def __init__(self, cycle, max_beta=1.0):
        self.cycle, self.max_beta = cycle, max_beta

    def __call__(self, it):
        pos = (it % self.cycle) / self.cycle
        return self.max_beta * min(1.0, 2 * pos + 0.25)


def elbo(logits, x, mu, logvar, beta, free_bits=0.02):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
    kl_dim = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar)
    kl = kl_dim.mean(0).clamp(min=free_bits).sum()
    return rec + beta * kl, rec, kl


def fit(epochs=3, batch_size=20):
    torch.manual_seed(17)
    xm.set_rng_state(17)
    device = torch_xla.device()
    vae = VAE().to(device)
    opt = torch.optim.Adagrad(vae.parameters(), lr=0.02, lr_decay=1e-3)
    beta_at = CyclicalBeta(cycle=8)
    counter = itertools.count()
    torch_xla.sync()
    for epoch in range(epochs):
        for x in MpDeviceLoader(digits(batch_size), device):
            it = next(counter)
            logits, mu, logvar = vae(x)
            loss, rec, kl = elbo(logits, x, mu, logvar, beta_at(it))
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
        print(f"epoch {epoch}: loss {loss.item():.3f} rec {rec.item():.3f} kl {kl.item():.3f}")


if __name__ == "__main__":
    fit()
