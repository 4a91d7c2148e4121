"""Unsupervised domain adaptation of a sensor classifier with an optimal transport loss."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CHANNELS = 12
CLASSES = 4
BATCH = 32
STEPS = 36
OT_WEIGHT = 0.5


class SinkhornPlan:
    """Entropic transport plan between two uniform empirical measures, in the log domain."""

    def __init__(self, reg=0.15, tol=2e-3, max_iter=50):
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter

    @torch.no_grad()
    def __call__(self, cost):
        n, m = cost.shape
        log_a = torch.full((n,), -float(np.log(n)), device=cost.device)
        log_b = torch.full((m,), -float(np.log(m)), device=cost.device)
        scaled = -cost / self.reg
        f = torch.zeros_like(log_a)
        g = torch.zeros_like(log_b)
        for _ in range(self.max_iter):
            f = log_a - torch.logsumexp(scaled + g[None, :], dim=1)
            g = log_b - torch.logsumexp(scaled + f[:, None], dim=0)
            row = torch.logsumexp(scaled + f[:, None] + g[None, :], dim=1).exp()
            if (row - log_a.exp()).abs().sum().item() < self.tol:
                break
        return (scaled + f[:, None] + g[None, :]).exp()


class FeatureNet(nn.Module):
    def __init__(self, in_dim, dim=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(in_dim, 48), nn.ReLU(),
            nn.Linear(48, dim), nn.LayerNorm(dim),
        )

    def forward(self, x):
        return self.net(x)


class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = FeatureNet(CHANNELS)
        self.classifier = nn.Linear(24, CLASSES)

    def forward(self, x):
        z = self.features(x)
        return z, self.classifier(z)


def pairwise_cost(zs, zt):
    zs = F.normalize(zs, dim=1)
    zt = F.normalize(zt, dim=1)
    return 1.0 - zs @ zt.t()


class ShiftedSensors:
    """Labelled source sensors; the target sensors are rotated, scaled and noisier."""

    def __init__(self, rng):
        self.rng = rng
        self.means = rng.normal(0, 1.5, (CLASSES, CHANNELS))
        q, _ = np.linalg.qr(np.eye(CHANNELS) + 0.25 * rng.normal(size=(CHANNELS, CHANNELS)))
        self.rotation = q * np.sign(np.diag(q))

    def draw(self, n, target):
        y = self.rng.integers(0, CLASSES, n)
        x = self.means[y] + self.rng.normal(0, 0.7, (n, CHANNELS))
        if target:
            x = 1.2 * x @ self.rotation + self.rng.normal(0, 0.2, (n, CHANNELS))
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


@torch.no_grad()
def target_accuracy(model, x, y):
    model.eval()
    _, logits = model(x)
    accuracy = (logits.argmax(1) == y).float().mean()
    model.train()
    return accuracy


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = xm.xla_device()

    data = ShiftedSensors(rng)
    test_x, test_y = (t.to(device) for t in data.draw(256, target=True))
    model = Adapter().to(device)
    sinkhorn = SinkhornPlan()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    model.train()
    for step in range(STEPS):
        xs, ys = data.draw(BATCH, target=False)
        xt, _ = data.draw(BATCH, target=True)
        xs, ys, xt = xs.to(device), ys.to(device), xt.to(device)

        zs, logits = model(xs)
        zt, _ = model(xt)
        cls_loss = F.cross_entropy(logits, ys)
        cost = pairwise_cost(zs, zt)
        plan = sinkhorn(cost.detach())
        ot_loss = (plan * cost).sum()
        loss = cls_loss + OT_WEIGHT * ot_loss

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        if (step + 1) % 9 == 0:
            accuracy = target_accuracy(model, test_x, test_y)
            torch_xla.sync()
            print(f"step {step + 1} cls {cls_loss.item():.4f} ot {ot_loss.item():.4f} "
                  f"target acc {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
