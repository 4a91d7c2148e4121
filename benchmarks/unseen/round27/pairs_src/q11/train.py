"""Unrolled hard thresholding for non-negative sparse codes of small patches, on PyTorch/XLA."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--patch", type=int, default=6)
    p.add_argument("--atoms", type=int, default=48)
    p.add_argument("--unroll", type=int, default=3)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--lam-max", type=float, default=0.5)
    p.add_argument("--lam-min", type=float, default=0.05)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args()


class SparseCoder(nn.Module):

    def __init__(self, n_pix, n_atoms, unroll):
        super().__init__()
        self.unroll = unroll
        self.encode = nn.Linear(n_pix, n_atoms, bias=False)
        self.lateral = nn.Linear(n_atoms, n_atoms, bias=False)
        self.dictionary = nn.Linear(n_atoms, n_pix, bias=False)
        nn.init.orthogonal_(self.encode.weight)
        nn.init.eye_(self.lateral.weight)
        with torch.no_grad():
            self.lateral.weight.mul_(0.5)
            self.dictionary.weight.copy_(self.encode.weight.t())

    def forward(self, x, lam):
        drive = self.encode(x)
        code = F.threshold(drive, lam, 0.0)
        for _ in range(self.unroll):
            code = F.threshold(drive + self.lateral(code), lam, 0.0)
        return self.dictionary(code), code


class LambdaSchedule:
    """Geometric interpolation from lam_max to lam_min over the epochs."""

    def __init__(self, lam_max, lam_min, epochs):
        self.lam_max, self.lam_min, self.epochs = lam_max, lam_min, epochs

    def __call__(self, epoch):
        t = epoch / max(1, self.epochs - 1)
        return math.exp((1 - t) * math.log(self.lam_max) + t * math.log(self.lam_min))


def make_patches(n, side, gen):
    """Sums of a few oriented gratings plus noise, whitened per patch."""
    yy, xx = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    theta = torch.rand(n, 3, generator=gen) * math.pi
    phase = torch.rand(n, 3, generator=gen) * 2 * math.pi
    freq = 0.6 + torch.rand(n, 3, generator=gen)
    proj = (torch.cos(theta)[..., None, None] * xx + torch.sin(theta)[..., None, None] * yy)
    img = torch.sin(freq[..., None, None] * proj + phase[..., None, None]).sum(1)
    img = img + 0.1 * torch.randn(n, side, side, generator=gen)
    flat = img.flatten(1)
    return (flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True)


def main():
    args = parse_args()
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    device = torch_xla.device()

    n_pix = args.patch ** 2
    model = SparseCoder(n_pix, args.atoms, args.unroll).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    schedule = LambdaSchedule(args.lam_max, args.lam_min, args.epochs)
    patches = make_patches(args.batch * args.steps, args.patch, gen)
    torch_xla.sync()

    for epoch in range(args.epochs):
        lam = schedule(epoch)
        running = torch.zeros((), device=device)
        torch_xla.sync()
        for step in range(args.steps):
            x = patches[step * args.batch:(step + 1) * args.batch].to(device)
            recon, code = model(x, lam)
            loss = F.mse_loss(recon, x) + 1e-2 * code.mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                w = model.dictionary.weight
                w.div_(w.norm(dim=0, keepdim=True).clamp_min(1e-6))
            running = running + loss.detach()
            torch_xla.sync()
        xm.master_print(f"epoch {epoch}  lam {lam:.3f}  loss {running.item() / args.steps:.4f}")


if __name__ == "__main__":
    main()
