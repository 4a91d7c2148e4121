"""Deep embedded clustering: autoencoder, Student-t assignments, sharpened targets."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEATURES, LATENT, CLUSTERS = 24, 6, 5


def mlp(*sizes):
    return nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]))


class SoftAssignment(nn.Module):
    def __init__(self, clusters, dim):
        super().__init__()
        self.centroids = nn.Parameter(torch.empty(clusters, dim))
        nn.init.xavier_uniform_(self.centroids)

    def forward(self, z):
        gap = z[:, None] - self.centroids
        kernel = (1.0 + gap.square().sum(-1)).reciprocal()
        return kernel / kernel.sum(-1, keepdim=True)


class ClusterNet(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.assign = SoftAssignment(CLUSTERS, LATENT)
        self.decoder = mlp(LATENT, width, FEATURES)
        self.encoder = mlp(FEATURES, width, LATENT)

    def forward(self, x):
        z = self.encoder(x)
        return z, self.decoder(z), self.assign(z)


@torch.no_grad()
def target_distribution(q):
    w = q.square() / q.sum(0, keepdim=True)
    return w / w.sum(1, keepdim=True)


def losses(x, recon, q):
    log_q = q.log()
    kl = F.kl_div(log_q, target_distribution(q), reduction="batchmean")
    usage = q.mean(0)
    balance = torch.xlogy(usage, usage).sum()
    return F.mse_loss(recon, x) + 0.1 * kl + 0.01 * balance


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
