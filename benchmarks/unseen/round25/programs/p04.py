"""Learned keypoint matching between two noisy point sets with entropic optimal transport."""
import argparse

import torch
import torch.nn as nn
import torch_xla


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--points", type=int, default=12)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--eps", type=float, default=0.25)
    p.add_argument("--tol", type=float, default=2e-3)
    p.add_argument("--max-iter", type=int, default=40)
    p.add_argument("--lr", type=float, default=3e-3)
    return p.parse_args()


class PointEncoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.inp = nn.Linear(2, dim)
        self.attn_q, self.attn_k, self.attn_v = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def forward(self, pts):
        h = torch.relu(self.inp(pts))
        a = torch.softmax(self.attn_q(h) @ self.attn_k(h).transpose(1, 2) / h.shape[-1] ** 0.5, -1)
        return self.out(h + a @ self.attn_v(h))


def sinkhorn(cost, eps, tol, max_iter):
    """Log-domain Sinkhorn with uniform marginals; returns the log transport plan."""
    b, n, m = cost.shape
    log_mu = -torch.log(torch.full((b, n), float(n), device=cost.device))
    log_nu = -torch.log(torch.full((b, m), float(m), device=cost.device))
    f, g = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
    kernel = -cost / eps
    for it in range(max_iter):
        f_old = f
        f = log_mu - torch.logsumexp(kernel + g[:, None, :], dim=2)
        g = log_nu - torch.logsumexp(kernel + f[:, :, None], dim=1)
        err = (f - f_old).abs().mean()
        if err.item() < tol:
            break
    return kernel + f[:, :, None] + g[:, None, :]


def make_pairs(gen, batch, points):
    src = torch.rand(batch, points, 2, generator=gen) * 2 - 1
    theta = (torch.rand(batch, generator=gen) - 0.5) * 0.8
    rot = torch.stack([theta.cos(), -theta.sin(), theta.sin(), theta.cos()], -1).view(batch, 2, 2)
    perm = torch.stack([torch.randperm(points, generator=gen) for _ in range(batch)])
    dst = src @ rot + 0.02 * torch.randn(batch, points, 2, generator=gen)
    dst = torch.gather(dst, 1, perm[..., None].expand(-1, -1, 2))
    inverse = torch.argsort(perm, dim=1)
    return src, dst, inverse


class Matcher(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.enc = PointEncoder()
        self.args = args

    def forward(self, src, dst):
        a, b = self.enc(src), self.enc(dst)
        cost = ((a[:, :, None] - b[:, None]) ** 2).mean(-1)
        return sinkhorn(cost, self.args.eps, self.args.tol, self.args.max_iter)


def main():
    args = get_args()
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    device = torch_xla.device()
    net = Matcher(args).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)

    for step in range(args.steps):
        src, dst, match = (t.to(device) for t in make_pairs(gen, args.batch, args.points))
        opt.zero_grad()
        log_plan = net(src, dst)
        loss = -log_plan.gather(2, match[..., None]).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 10 == 0:
            acc = (log_plan.detach().argmax(2) == match).float().mean()
            print(f"[{step + 1}] nll {loss.item():.3f} matched {acc.item():.2%}", flush=True)


if __name__ == "__main__":
    main()
