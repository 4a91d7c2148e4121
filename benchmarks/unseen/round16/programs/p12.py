"""Sparse dictionary of calcium-imaging activity: an autoencoder whose code is
hard-thresholded, with the threshold raised slowly while the dictionary settles."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--neurons", type=int, default=48)
    ap.add_argument("--atoms", type=int, default=64)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--tau-start", type=float, default=0.02)
    ap.add_argument("--tau-end", type=float, default=0.25)
    ap.add_argument("--anneal-steps", type=int, default=25)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--l1", type=float, default=1e-3)
    return ap.parse_args([])


class Recordings:
    """Ground-truth assemblies mixed with non-negative sparse weights."""

    def __init__(self, neurons, assemblies=20, seed=3):
        self.gen = torch.Generator().manual_seed(seed)
        self.basis = torch.rand(assemblies, neurons, generator=self.gen)
        self.basis = self.basis * (torch.rand(assemblies, neurons, generator=self.gen) < 0.2)

    def sample(self, n):
        active = torch.rand(n, self.basis.shape[0], generator=self.gen) < 0.1
        amp = torch.rand(n, self.basis.shape[0], generator=self.gen)
        frames = (amp * active) @ self.basis
        return frames + 0.02 * torch.randn(frames.shape, generator=self.gen)


class Annealer:
    """Linear ramp that holds its last value."""

    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps
        self.count = 0

    def step(self):
        self.count = min(self.count + 1, self.steps)

    @property
    def value(self):
        return self.start + (self.end - self.start) * self.count / self.steps


class SparseCoder(nn.Module):
    def __init__(self, neurons, atoms, annealer):
        super().__init__()
        self.pre_bias = nn.Parameter(torch.zeros(neurons))
        self.enc = nn.Linear(neurons, atoms)
        self.dec = nn.Parameter(F.normalize(torch.randn(atoms, neurons), dim=1))
        self.annealer = annealer

    def encode(self, x):
        act = F.relu(self.enc(x - self.pre_bias))
        return F.threshold(act, self.annealer.value, 0.0)

    def forward(self, x):
        code = self.encode(x)
        recon = code @ F.normalize(self.dec, dim=1) + self.pre_bias
        return recon, code


class Meter:
    def __init__(self, device):
        self.mse = torch.zeros((), device=device)
        self.l0 = torch.zeros((), device=device)
        self.n = 0

    def add(self, mse, code):
        self.mse += mse.detach()
        self.l0 += (code.detach() > 0).float().sum(1).mean()
        self.n += 1

    def pop(self):
        out = self.mse.item() / self.n, self.l0.item() / self.n
        self.mse.zero_()
        self.l0.zero_()
        self.n = 0
        return out


def main():
    args = parse()
    torch.manual_seed(0)
    device = torch_xla.device()
    data = Recordings(args.neurons)
    annealer = Annealer(args.tau_start, args.tau_end, args.anneal_steps)
    model = SparseCoder(args.neurons, args.atoms, annealer).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    meter = Meter(device)

    batches = ((data.sample(args.batch),) for _ in range(args.steps))
    frames = torch.utils.data.DataLoader(
        torch.cat([b[0] for b in batches]), batch_size=args.batch, drop_last=True)
    for step, x in enumerate(pl.MpDeviceLoader(frames, device), 1):
        recon, code = model(x)
        mse = F.mse_loss(recon, x)
        loss = mse + args.l1 * code.abs().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        annealer.step()
        meter.add(mse, code)
        if step % 20 == 0:
            torch_xla.sync()
            mse_avg, l0 = meter.pop()
            print(f"step {step:3d} tau {annealer.value:.3f} mse {mse_avg:.4f} active {l0:.1f}")


if __name__ == "__main__":
    main()
