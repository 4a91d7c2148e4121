"""Growing neural cellular automata: learn a local rule that grows a small emblem from one cell."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CHANNELS = 8
SIZE = 12
POOL_SIZE = 64
BATCH = 4
FIRE_RATE = 0.5


def make_target(size=SIZE):
    yy, xx = np.mgrid[0:size, 0:size]
    c = (size - 1) / 2
    r = np.hypot(yy - c, xx - c)
    alpha = (r < size * 0.38).astype(np.float32)
    rgb = np.stack([alpha * (xx / size), alpha * (yy / size), alpha * (r < size * 0.2)])
    return torch.from_numpy(np.concatenate([rgb, alpha[None]]).astype(np.float32))


def make_seed(n, size=SIZE):
    x = np.zeros((n, CHANNELS, size, size), np.float32)
    x[:, 3:, size // 2, size // 2] = 1.0
    return x


class SamplePool:
    def __init__(self, n):
        self.x = make_seed(n)

    def sample(self, n, rng):
        idx = rng.choice(len(self.x), n, replace=False)
        return idx, self.x[idx]

    def commit(self, idx, batch):
        self.x[idx] = batch


class CellularAutomaton(nn.Module):
    def __init__(self, channels=CHANNELS, hidden=24):
        super().__init__()
        sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        bank = torch.stack([ident, sobel, sobel.t()])
        self.register_buffer("kernel", bank.repeat(channels, 1, 1)[:, None])
        self.channels = channels
        self.fc0 = nn.Conv2d(3 * channels, hidden, 1)
        self.fc1 = nn.Conv2d(hidden, channels, 1, bias=False)
        nn.init.zeros_(self.fc1.weight)

    @staticmethod
    def living(x):
        return (F.max_pool2d(x[:, 3:4], 3, 1, 1) > 0.1).float()

    def forward(self, x):
        pre = self.living(x)
        y = F.conv2d(x, self.kernel, padding=1, groups=self.channels)
        dx = self.fc1(F.relu(self.fc0(y)))
        fire = (torch.rand(x.size(0), 1, *x.shape[2:]) < FIRE_RATE).float().to(x.device)
        x = x + dx * fire
        return x * pre * self.living(x)


def circle_damage(x, n, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    for k in range(n):
        cy, cx = rng.uniform(SIZE * 0.25, SIZE * 0.75, 2)
        keep = np.hypot(yy - cy, xx - cx) > SIZE * 0.18
        x[-1 - k] *= keep
    return x


def normalise_grads(model):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(p.grad.norm() + 1e-8)


def train(n_iter=16, lr=2e-3, seed=11):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    device = torch_xla.device()

    target = make_target().to(device)
    ca = CellularAutomaton().to(device)
    opt = torch.optim.Adam(ca.parameters(), lr=lr)
    pool = SamplePool(POOL_SIZE)
    per_sample = np.zeros(BATCH)

    for it in range(n_iter):
        idx, cells = pool.sample(BATCH, rng)
        # replace the worst sample by a fresh seed, damage one of the better ones
        rank = np.argsort(((cells[:, :4] - make_target().numpy()) ** 2).mean((1, 2, 3)))[::-1]
        idx, cells = idx[rank], cells[rank]
        cells[:1] = make_seed(1)
        if it > n_iter // 2:
            cells = circle_damage(cells, 1, rng)

        x = torch.from_numpy(np.ascontiguousarray(cells)).to(device)
        for _ in range(rng.integers(4, 18)):
            x = ca(x)
        err = (x[:, :4] - target).pow(2).mean((1, 2, 3))
        loss = err.mean()

        opt.zero_grad()
        loss.backward()
        normalise_grads(ca)
        opt.step()
        torch_xla.sync()

        pool.commit(idx, x.detach().cpu().numpy())
        per_sample = err.detach().cpu().numpy()
        if it % 4 == 3:
            print(f"iter {it + 1:3d} log10(loss) {np.log10(per_sample.mean()):.3f}")

    return ca


if __name__ == "__main__":
    train()
