"""Point cloud auto-encoder trained with an entropic OT reconstruction loss."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--points", type=int, default=24)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--latent", type=int, default=8)
    p.add_argument("--blur", type=float, default=0.25)
    p.add_argument("--max-iter", type=int, default=18)
    p.add_argument("--thresh", type=float, default=5e-3)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--lr", type=float, default=4e-3)
    return p.parse_args([])


class SinkhornLoss(nn.Module):
    def __init__(self, eps, max_iter, thresh):
        super().__init__()
        self.eps, self.max_iter, self.thresh = eps, max_iter, thresh

    def forward(self, x, y):
        C = ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(-1)
        b, n, m = C.shape
        log_mu = torch.full((b, n), -float(np.log(n)), device=C.device)
        log_nu = torch.full((b, m), -float(np.log(m)), device=C.device)
        u, v = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
        for _ in range(self.max_iter):
            u_prev = u
            M = (-C + u.unsqueeze(2) + v.unsqueeze(1)) / self.eps
            u = self.eps * (log_mu - torch.logsumexp(M, dim=2)) + u
            M = (-C + u.unsqueeze(2) + v.unsqueeze(1)) / self.eps
            v = self.eps * (log_nu - torch.logsumexp(M, dim=1)) + v
            err = (u - u_prev).abs().sum(-1).mean()
            if err.item() < self.thresh:
                break
        pi = torch.exp((-C + u.unsqueeze(2) + v.unsqueeze(1)) / self.eps)
        return (pi * C).sum((1, 2)).mean()


class PointAE(nn.Module):
    def __init__(self, n_points, latent):
        super().__init__()
        self.n_points = n_points
        self.enc = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, latent))
        self.dec = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, n_points * 2))

    def forward(self, pts):
        z = self.enc(pts).amax(dim=1)
        return self.dec(z).view(-1, self.n_points, 2)


def make_clouds(rng, batch, n):
    """noisy ellipses"""
    t = rng.uniform(0, 2 * np.pi, size=(batch, n))
    ab = rng.uniform(0.4, 1.2, size=(batch, 1, 2))
    pts = np.stack([np.cos(t), np.sin(t)], -1) * ab
    pts += rng.normal(0, 0.03, size=pts.shape)
    return torch.from_numpy(pts.astype(np.float32))


def train(args):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()
    model = PointAE(args.points, args.latent).to(device)
    criterion = SinkhornLoss(args.blur, args.max_iter, args.thresh)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * 10, momentum=0.9)
    for step in range(args.steps):
        pts = make_clouds(rng, args.batch, args.points).to(device)
        optimizer.zero_grad()
        rec = model(pts)
        loss = criterion(rec, pts)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 10 == 0:
            xm.master_print("step %d ot-loss %.4f" % (step, loss.item()))


if __name__ == "__main__":
    train(parse_args())
