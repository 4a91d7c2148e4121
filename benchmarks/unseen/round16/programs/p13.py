"""Surrogate for a groundwater model: learn head at observation wells from
recharge and conductivity fields, with early progress reported more densely."""
import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

GRID = 12
WELLS = 8
TOTAL_STEPS = 40


def simulate(n, seed):
    """Crude steady-state head by a handful of Jacobi sweeps."""
    g = torch.Generator().manual_seed(seed)
    logk = torch.randn(n, 1, GRID, GRID, generator=g)
    logk = nn.functional.avg_pool2d(logk, 3, stride=1, padding=1)
    recharge = torch.rand(n, 1, GRID, GRID, generator=g)
    head = torch.zeros(n, 1, GRID, GRID)
    kernel = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]).view(1, 1, 3, 3) / 4
    for _ in range(20):
        head = nn.functional.conv2d(head, kernel, padding=1) + 0.1 * recharge / logk.exp()
    cells = torch.randperm(GRID * GRID, generator=torch.Generator().manual_seed(1))[:WELLS]
    return torch.cat([logk, recharge], 1), head.flatten(1)[:, cells]


class WellNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Linear(2 * GRID * GRID, width)
        self.head = nn.Linear(width, WELLS)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x.flatten(1))))


class ProgressLog:
    """Every step of the first few, then one in `every`."""

    def __init__(self, dense=3, every=4):
        self.dense, self.every = dense, every
        self.rows = []

    def due(self, step):
        return step <= self.dense or step % self.every == 0

    def write(self, step, loss, lr):
        self.rows.append((step, loss.item(), lr))
        print("step %3d  mse %.5f  lr %.2e" % self.rows[-1])


def endless(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    fields, heads = simulate(256, seed=5)
    heads = (heads - heads.mean(0)) / heads.std(0)
    loader = DataLoader(TensorDataset(fields, heads), batch_size=16, shuffle=True, drop_last=True)

    net = WellNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.03)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=15, gamma=0.5)
    log = ProgressLog()

    net.train()
    stream = endless(loader)
    for step in range(1, TOTAL_STEPS + 1):
        x, y = next(stream)
        x = x.to(device)
        y = y.to(device)
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        sched.step()
        if log.due(step):
            log.write(step, loss, sched.get_last_lr()[0])

    torch_xla.sync()
    print("reported", len(log.rows), "times; best", min(r[1] for r in log.rows))


if __name__ == "__main__":
    main()
