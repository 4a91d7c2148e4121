"""Growing neural cellular automata (Mordvintsev et al.) with a sample pool and damage, small emoji-like target."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CHANNELS = 8
SIZE = 16


def target_image():
    """RGBA ring with a coloured core."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    r = np.hypot(yy - (SIZE - 1) / 2, xx - (SIZE - 1) / 2)
    alpha = (r < 5.5).astype(np.float32)
    rgb = np.stack([(r < 5.5) * 0.9, ((r > 2) & (r < 5.5)) * 0.7, (r <= 2) * 0.8]).astype(np.float32)
    return torch.from_numpy(np.concatenate([rgb * alpha, alpha[None]], axis=0))


def seed_state():
    s = torch.zeros(CHANNELS, SIZE, SIZE)
    s[3:, SIZE // 2, SIZE // 2] = 1.0
    return s


class CellularAutomaton(nn.Module):
    def __init__(self, hidden=32, fire_rate=0.5):
        super().__init__()
        ident = torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]])
        dx = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8.0
        kernels = torch.stack([ident, dx, dx.t()])
        self.register_buffer("kernels", kernels.unsqueeze(1).repeat(CHANNELS, 1, 1, 1))
        self.hidden = nn.Conv2d(3 * CHANNELS, hidden, 1)
        self.update = nn.Conv2d(hidden, CHANNELS, 1, bias=False)
        nn.init.zeros_(self.update.weight)
        self.fire_rate = fire_rate

    @staticmethod
    def alive(x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def step(self, x):
        before = self.alive(x)
        y = F.conv2d(x, self.kernels, padding=1, groups=CHANNELS)
        dx = self.update(F.relu(self.hidden(y)))
        fire = (torch.rand(x.shape[0], 1, SIZE, SIZE, device=x.device) < self.fire_rate).to(x.dtype)
        x = x + dx * fire
        keep = (before & self.alive(x)).to(x.dtype)
        return x * keep

    def forward(self, x, iterations):
        for _ in range(iterations):
            x = self.step(x)
        return x


class SamplePool:
    def __init__(self, size, rng):
        self.states = seed_state().repeat(size, 1, 1, 1)
        self.rng = rng

    def draw(self, n):
        idx = torch.from_numpy(self.rng.choice(len(self.states), n, replace=False))
        return idx, self.states[idx].clone()

    def commit(self, idx, states):
        self.states[idx] = states


def damage(x, rng):
    """Cut a disc out of every state given."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    for i in range(x.shape[0]):
        cy, cx = rng.uniform(4, SIZE - 4, 2)
        x[i] *= torch.from_numpy((np.hypot(yy - cy, xx - cx) > rng.uniform(1.5, 3.0)).astype(np.float32))
    return x


def pixel_loss(x, target):
    return (x[:, :4] - target).square().mean(dim=(1, 2, 3))


def normalise_grads(model):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(p.grad.norm() + 1e-8)


def main(train_steps=24, batch=6, min_iter=4, max_iter=12):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    device = torch_xla.device()

    model = CellularAutomaton().to(device)
    target = target_image().unsqueeze(0).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.5, 0.5))
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[16], gamma=0.3)
    pool = SamplePool(64, rng)
    history = []

    for step in range(1, train_steps + 1):
        idx, x0 = pool.draw(batch)
        x0[0] = seed_state()
        if step > 12:
            x0[-2:] = damage(x0[-2:], rng)
        x0 = x0.to(device)

        x = model(x0, int(rng.integers(min_iter, max_iter + 1)))
        per_sample = pixel_loss(x, target)
        loss = per_sample.mean()

        opt.zero_grad()
        loss.backward()
        normalise_grads(model)
        opt.step()
        sched.step()
        torch_xla.sync()

        rank = per_sample.detach().cpu().argsort(descending=True)
        pool.commit(idx[rank], x.detach().cpu()[rank])
        history.append(loss.item())
        if step % 6 == 0:
            xm.master_print(f"step {step:3d} log10 loss {np.log10(np.mean(history[-6:])):+.3f}")


if __name__ == "__main__":
    main()
