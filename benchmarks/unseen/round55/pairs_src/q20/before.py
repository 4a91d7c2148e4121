"""Image/attribute retrieval embedder, multi-similarity loss with class proxies."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Stem(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.gn = nn.GroupNorm(4, 2 * c)

    def forward(self, x):
        return F.relu(self.gn(self.conv2(F.relu(self.conv1(x)))))


class GeM(nn.Module):
    def __init__(self, p=3.0):
        super().__init__()
        self.p = nn.Parameter(torch.tensor([p]))

    def forward(self, x):
        return x.clamp(min=1e-4).pow(self.p).mean((-2, -1)).pow(1.0 / self.p)


class Embedder(nn.Module):
    def __init__(self, c=8, dim=12, n_attr=6, n_classes=5):
        super().__init__()
        self.stem = Stem(c)
        self.pool = GeM()
        self.fc_img = nn.Linear(2 * c, dim)
        self.fc_attr = nn.Linear(n_attr, dim)
        self.gate = nn.Linear(2 * dim, dim)
        self.proxies = nn.Parameter(torch.randn(n_classes, dim))

    def forward(self, img, attr):
        v = self.fc_img(self.pool(self.stem(img)))
        a = self.fc_attr(attr)
        g = torch.sigmoid(self.gate(torch.cat([v, a], 1)))
        z = g * v + (1 - g) * a
        return F.normalize(z, dim=-1), F.normalize(self.proxies, dim=-1)


def ms_loss(z, proxies, y, alpha=2.0, beta=20.0, base=0.5):
    n = proxies.shape[0]
    sim = z @ proxies.t()
    pos = F.one_hot(y, n).to(sim.dtype)
    neg = 1 - pos
    lp = torch.log(1 + (torch.exp(-alpha * (sim - base)) * pos).sum(1)) / alpha
    ln = torch.log(1 + (torch.exp(beta * (sim - base)) * neg).sum(1)) / beta
    return (lp + ln).mean()


def spread(proxies):
    n = proxies.shape[0]
    g = proxies @ proxies.t()
    off = g * (1 - torch.eye(n, device=g.device))
    return off.pow(2).sum() / (n * (n - 1))


def batch(rng, n=12, classes=5):
    y = rng.integers(0, classes, n)
    img = rng.normal(size=(n, 3, 16, 16)) + 0.3 * y[:, None, None, None]
    attr = rng.normal(size=(n, 6)) + np.eye(6)[y]
    return torch.from_numpy(img.astype(np.float32)), torch.from_numpy(attr.astype(np.float32)), torch.from_numpy(y)


def train(steps=4, weights=None):
    torch.manual_seed(9)
    rng = np.random.default_rng(9)
    dev = torch_xla.device()
    model = Embedder()
    if weights is not None:
        model.load_state_dict(weights)
    model = model.to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    torch_xla.sync()
    losses = []
    for i in range(steps):
        img, attr, y = (t.to(dev) for t in batch(rng))
        z, p = model(img, attr)
        loss = ms_loss(z, p, y) + 0.1 * spread(p)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        losses.append(loss.item())
        print(i, f"{losses[-1]:.6f}")
    return losses, {k: v.cpu() for k, v in model.state_dict().items()}


if __name__ == "__main__":
    train()
