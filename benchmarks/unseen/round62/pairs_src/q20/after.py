"""PointNet classifier for LiDAR tree crowns, with the learned alignment of the input."""
import numpy as np
import torch
from torch import nn, Tensor
from torch.nn import functional as F
import torch_xla

SPECIES = 5
POINTS = 48
BATCH = 8
STEPS = 5


class PointMLP(nn.Module):
    """The same linear map for every point; points stay in the second dimension."""

    def __init__(self, sizes, norm=False):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])
        self.norms = nn.ModuleList([nn.BatchNorm1d(b) for b in sizes[1:]]) if norm else None

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        x = x.flatten(0, 1)
        for i, linear in enumerate(self.linears):
            x = linear(x)
            if self.norms is not None:
                x = self.norms[i](x)
            x = F.relu(x)
        return x.view(b, n, -1)


class AlignNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = PointMLP([3, 16, 32])
        self.out = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 9))
        nn.init.normal_(self.out[2].weight, std=0.01)
        with torch.no_grad():
            self.out[2].bias.copy_(torch.eye(3).flatten())

    def forward(self, xyz: Tensor) -> Tensor:
        return self.out(self.points(xyz).amax(1)).unflatten(1, (3, 3))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(48, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, SPECIES))
        self.points = PointMLP([4, 32, 48], norm=True)
        self.align = AlignNet()

    def forward(self, xyz: Tensor, intensity: Tensor):
        trans = self.align(xyz)
        x = torch.cat([xyz @ trans, intensity[..., None]], -1)
        return self.head(self.points(x).amax(1)), trans


def orthogonality(trans: Tensor) -> Tensor:
    gram = torch.einsum("bij,bkj->bik", trans, trans)
    diff = gram - torch.eye(3, device=trans.device)
    return diff.square().sum((1, 2)).sqrt().mean()


def crowns(seed):
    rng = np.random.default_rng(seed)
    while True:
        y = rng.integers(0, SPECIES, BATCH)
        xyz = rng.normal(size=(BATCH, POINTS, 3)) * (1 + 0.2 * y[:, None, None])
        intensity = rng.random((BATCH, POINTS))
        yield (torch.from_numpy(xyz.astype(np.float32)), torch.from_numpy(intensity.astype(np.float32)),
               torch.from_numpy(y))


def train_step(model, optimizer, xyz, intensity, y):
    logits, trans = model(xyz, intensity)
    loss = F.cross_entropy(logits, y) + 0.001 * orthogonality(trans)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach(), (logits.detach().argmax(1) == y).sum()


def main():
    torch.manual_seed(40)
    device = torch_xla.device()
    model = PointNet().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4, foreach=False)
    torch_xla.sync()
    for step, batch in zip(range(STEPS), crowns(41)):
        loss, correct = train_step(model, optimizer, *(t.to(device) for t in batch))
        torch_xla.sync()
        print(step, loss.item(), correct.item())


if __name__ == "__main__":
    main()
