"""Image/attribute retrieval embedder, multi-similarity loss with class proxies."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def unit(x, eps=1e-12):
    return x * x.square().sum(-1, keepdim=True).clamp(min=eps * eps).rsqrt()


class Stem(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.gn = nn.GroupNorm(4, 2 * c)

    def forward(self, x):
        x = self.conv1(x).relu()
        x = self.conv2(x)
        return self.gn(x).relu()


class GeM(nn.Module):
    def __init__(self, p=3.0):
        super().__init__()
        self.p = nn.Parameter(torch.tensor([p]))

    def forward(self, x):
        x = x.flatten(2).clamp(min=1e-4)
        return x.pow(self.p).mean(-1).pow(self.p.reciprocal())


class GatedSum(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(2 * dim, dim)

    def forward(self, v, a):
        g = self.gate(torch.cat([v, a], 1)).sigmoid()
        return a + g * (v - a)


class Embedder(nn.Module):
    def __init__(self, c=8, dim=12, n_attr=6, n_classes=5):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(n_classes, dim))
        self.fc_attr = nn.Linear(n_attr, dim)
        self.stem = Stem(c)
        self.pool = GeM()
        self.fc_img = nn.Linear(2 * c, dim)
        self.fuse = GatedSum(dim)

    def forward(self, img, attr):
        a = self.fc_attr(attr)
        v = self.fc_img(self.pool(self.stem(img)))
        return unit(self.fuse(v, a)), unit(self.proxies)


class MultiSimilarity(nn.Module):
    def __init__(self, n_classes, alpha=2.0, beta=20.0, base=0.5, spread=0.1):
        super().__init__()
        self.alpha, self.beta, self.base, self.spread = alpha, beta, base, spread
        self.register_buffer("classes", torch.arange(n_classes), persistent=False)

    def forward(self, z, proxies, y):
        s = F.linear(z, proxies) - self.base
        pos = y.unsqueeze(1) == self.classes
        lp = torch.where(pos, (-self.alpha * s).exp(), 0.0).sum(1).log1p() / self.alpha
        ln = torch.where(pos, 0.0, (self.beta * s).exp()).sum(1).log1p() / self.beta
        return lp.mean() + ln.mean() + self.spread * self.crowding(proxies)

    def crowding(self, proxies):
        n = len(self.classes)
        same = self.classes.unsqueeze(0) == self.classes.unsqueeze(1)
        g = torch.einsum("id,jd->ij", proxies, proxies).masked_fill(same, 0.0)
        return g.square().sum() / (n * (n - 1))


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
    criterion = MultiSimilarity(n_classes=5).to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    torch_xla.sync()
    losses = []
    for i in range(steps):
        img, attr, y = (t.to(dev) for t in batch(rng))
        opt.zero_grad(set_to_none=True)
        z, p = model(img, attr)
        loss = criterion(z, p, y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        losses.append(loss.item())
        print(i, f"{losses[-1]:.6f}")
    return losses, {k: v.cpu() for k, v in model.state_dict().items()}


if __name__ == "__main__":
    train()
