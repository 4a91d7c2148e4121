"""Space-group family classifier on voxelised electron densities."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GRID = 8
FAMILIES = ["P", "I", "F", "C"]
STEPS = 30
BATCH = 6

rng = np.random.default_rng(5)
torch.manual_seed(5)


def lattice_points(family):
    base = {
        "P": [(0, 0, 0)],
        "I": [(0, 0, 0), (0.5, 0.5, 0.5)],
        "F": [(0, 0, 0), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5)],
        "C": [(0, 0, 0), (0.5, 0.5, 0)],
    }
    return np.array(base[family], dtype=np.float32)


def density(family, width):
    """Periodic Gaussian density on a GRID^3 mesh of fractional coordinates."""
    axis = np.arange(GRID, dtype=np.float32) / GRID
    mesh = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1)
    rho = np.zeros((GRID,) * 3, dtype=np.float32)
    for p in lattice_points(family):
        d = mesh - p
        d -= np.round(d)
        rho += np.exp(-(d ** 2).sum(-1) / (2 * width ** 2))
    return rho / rho.max()


def make_batch():
    labels = rng.integers(0, len(FAMILIES), BATCH)
    vox = np.stack([density(FAMILIES[k], rng.uniform(0.10, 0.18)) for k in labels])
    vox += rng.normal(0, 0.05, vox.shape)
    return torch.from_numpy(vox.astype(np.float32))[:, None], torch.from_numpy(labels)


class PeriodicConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv3d(c_in, c_out, 3)

    def forward(self, x):
        return self.conv(F.pad(x, (1,) * 6, mode="circular"))


class OriginShift:
    """The choice of the cell's origin is arbitrary, so draw a new one."""

    def __init__(self, generator):
        self.generator = generator

    def __call__(self, rho):
        shift = tuple(int(s) for s in self.generator.integers(0, GRID, 3))
        return torch.roll(rho, shifts=shift, dims=(2, 3, 4))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = PeriodicConv(1, 4)
        self.mix = nn.Linear(8, 16)
        self.out = nn.Linear(16, len(FAMILIES))

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = torch.cat([x.mean((2, 3, 4)), x.amax((2, 3, 4))], 1)
        return self.out(F.relu(self.mix(x)))


def main():
    device = torch_xla.device()
    net = Net().to(device)
    augment = OriginShift(np.random.default_rng(6))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    correct = torch.zeros((), device=device)
    for step in range(STEPS):
        vox, labels = make_batch()
        vox, labels = vox.to(device), labels.to(device)
        vox = augment(vox)
        logits = net(vox)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        correct += (logits.argmax(1) == labels).sum()
        torch_xla.sync()
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}: loss {loss.item():.3f} seen-acc {correct.item() / ((step + 1) * BATCH):.3f}")


main()
