"""Neural emulator of Gray-Scott reaction-diffusion, trained on rollouts."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GRID = 20
HORIZONS = {0: 1, 8: 2, 18: 3}
STEPS = 60
EVAL_EVERY = 6
EVAL_HORIZON = 5


def laplacian(z):
    return (np.roll(z, 1, -1) + np.roll(z, -1, -1) + np.roll(z, 1, -2) + np.roll(z, -1, -2)) - 4 * z


def simulate(frames, rng, feed, kill, substeps=12):
    u, v = np.ones((GRID, GRID)), np.zeros((GRID, GRID))
    for _ in range(4):
        i, j = rng.integers(0, GRID - 4, 2)
        u[i:i + 4, j:j + 4], v[i:i + 4, j:j + 4] = 0.5, 0.25
    v += rng.uniform(0, 0.02, v.shape)
    out = []
    for _ in range(frames):
        for _ in range(substeps):
            r = u * v * v
            u = u + 0.16 * laplacian(u) - r + feed * (1 - u)
            v = v + 0.08 * laplacian(v) + r - (feed + kill) * v
        out.append(np.stack([u, v]))
    return np.asarray(out, dtype=np.float32)


class Corpus:
    def __init__(self, n, frames, seed):
        self.rng = np.random.default_rng(seed)
        self.runs = [
            simulate(frames, self.rng, self.rng.uniform(0.03, 0.045), self.rng.uniform(0.058, 0.064)) for _ in range(n)
        ]

    def windows(self, batch, horizon):
        clips = []
        for _ in range(batch):
            run = self.runs[self.rng.integers(len(self.runs))]
            s = self.rng.integers(0, len(run) - horizon)
            clips.append(run[s:s + horizon + 1])
        return torch.from_numpy(np.stack(clips))


class PeriodicConv(nn.Module):
    def __init__(self, cin, cout, k=3):
        super().__init__()
        self.pad = k // 2
        self.conv = nn.Conv2d(cin, cout, k)

    def forward(self, x):
        p = self.pad
        x = torch.cat([x[..., -p:], x, x[..., :p]], -1)
        x = torch.cat([x[..., -p:, :], x, x[..., :p, :]], -2)
        return self.conv(x)


class Stepper(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.inp, self.mid = PeriodicConv(2, width, 5), PeriodicConv(width, width)
        self.out = nn.Conv2d(width, 2, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, state):
        h = F.gelu(self.inp(state))
        h = h + F.gelu(self.mid(h))
        return state + self.out(h)


def rollout_error(model, clip):
    state, total = clip[:, 0], 0.0
    for k in range(1, clip.shape[1]):
        state = model(state)
        total = total + F.mse_loss(state, clip[:, k])
    return total / (clip.shape[1] - 1)


def horizon_at(step):
    return HORIZONS[max(s for s in HORIZONS if s <= step)]


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    train, held_out = Corpus(5, 60, seed=2), Corpus(2, 60, seed=3)
    model = Stepper().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=STEPS)

    for step in range(STEPS):
        clip = train.windows(6, horizon_at(step)).to(device)
        clip[:, 0] += 0.003 * torch.randn_like(clip[:, 0])
        loss = rollout_error(model, clip)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        sched.step()
        torch_xla.sync()

        if (step + 1) % EVAL_EVERY == 0:
            with torch.no_grad():
                score = rollout_error(model, held_out.windows(8, EVAL_HORIZON).to(device))
            torch_xla.sync()
            print(f"step {step + 1:3d}  horizon {horizon_at(step)}  loss {loss.item():.5f}  held-out {score.item():.5f}")


if __name__ == "__main__":
    main()
