"""Deep embedded clustering: autoencoder, Student-t assignments, sharpened targets."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEATURES, LATENT, CLUSTERS = 24, 6, 5


class ClusterNet(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.enc1 = nn.Linear(FEATURES, width)
        self.enc2 = nn.Linear(width, LATENT)
        self.dec1 = nn.Linear(LATENT, width)
        self.dec2 = nn.Linear(width, FEATURES)
        self.centroids = nn.Parameter(torch.empty(CLUSTERS, LATENT))
        nn.init.xavier_uniform_(self.centroids)

    def forward(self, x):
        z = self.enc2(torch.relu(self.enc1(x)))
        recon = self.dec2(torch.relu(self.dec1(z)))
        dist = ((z.unsqueeze(1) - self.centroids.unsqueeze(0)) ** 2).sum(2)
        q = 1.0 / (1.0 + dist)
        q = q / q.sum(1, keepdim=True)
        return z, recon, q


def target_distribution(q):
    w = q ** 2 / q.sum(0)
    return (w.t() / w.sum(1)).t()


def losses(x, recon, q):
    p = target_distribution(q).detach()
    kl = F.kl_div(q.log(), p, reduction="mean")
    mse = ((recon - x) ** 2).mean()
    usage = q.mean(0)
    balance = (usage * usage.log()).sum()
    return mse + 0.1 * kl + 0.01 * balance


def batches(n):
    g = torch.Generator().manual_seed(8)
    means = 2 * torch.randn(CLUSTERS, FEATURES, generator=g)
    for _ in range(n):
        label = torch.randint(0, CLUSTERS, (32,), generator=g)
        yield means[label] + torch.randn(32, FEATURES, generator=g)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = ClusterNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch_xla.sync()
    for step, x in enumerate(batches(8)):
        x = x.to(device)
        optimizer.zero_grad()
        z, recon, q = model(x)
        loss = losses(x, recon, q)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 4 == 3:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
