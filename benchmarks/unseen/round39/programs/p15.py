"""Learning to match two partial scans with entropic optimal transport.

A shared point encoder produces descriptors for both scans; a differentiable
Sinkhorn layer turns their similarities into a soft assignment that is trained
against the known correspondence.
"""
import math
import time

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

POINTS = 24
BATCH = 8
STEPS = 20


class PointEncoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.joint = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(),
                                   nn.Linear(dim, dim))

    def forward(self, pts):
        h = self.local(pts)
        pooled = h.amax(dim=1, keepdim=True).expand_as(h)
        return self.joint(torch.cat([h, pooled], dim=-1))


class Sinkhorn(nn.Module):
    def __init__(self, eps=0.25, max_iter=16, tol=1e-2):
        super().__init__()
        self.eps = eps
        self.max_iter = max_iter
        self.tol = tol

    def forward(self, cost):
        b, n, m = cost.shape
        log_k = -cost / self.eps
        log_mu = -math.log(n)
        log_nu = -math.log(m)
        u = cost.new_zeros(b, n)
        v = cost.new_zeros(b, m)
        for _ in range(self.max_iter):
            u_prev = u
            u = log_mu - torch.logsumexp(log_k + v[:, None, :], dim=2)
            v = log_nu - torch.logsumexp(log_k + u[:, :, None], dim=1)
            err = (u - u_prev).abs().sum(dim=-1).mean()
            if err.item() < self.tol:
                break
        return log_k + u[:, :, None] + v[:, None, :]


class Matcher(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder = PointEncoder(dim)
        self.sinkhorn = Sinkhorn()

    def forward(self, src, dst):
        a = nn.functional.normalize(self.encoder(src), dim=-1)
        b = nn.functional.normalize(self.encoder(dst), dim=-1)
        cost = 1.0 - torch.bmm(a, b.transpose(1, 2))
        return self.sinkhorn(cost)


def random_rotation(generator, batch):
    q = torch.randn(batch, 4, generator=generator)
    q = q / q.norm(dim=1, keepdim=True)
    w, x, y, z = q.unbind(dim=1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
            2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
            2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]
    return torch.stack(rows, dim=1).view(batch, 3, 3)


def sample_pair(generator):
    src = torch.randn(BATCH, POINTS, 3, generator=generator)
    src = src * torch.tensor([1.0, 0.6, 0.3])
    rot = random_rotation(generator, BATCH)
    perm = torch.stack([torch.randperm(POINTS, generator=generator)
                        for _ in range(BATCH)])
    moved = torch.bmm(src, rot.transpose(1, 2))
    moved = moved + 0.02 * torch.randn(moved.shape, generator=generator)
    dst = torch.gather(moved, 1, perm[..., None].expand(-1, -1, 3))
    match = torch.argsort(perm, dim=1)
    return src, dst, match


def matching_loss(log_plan, match):
    log_row = log_plan + math.log(log_plan.shape[1])
    return -log_row.gather(2, match[..., None]).mean()


def main():
    torch.manual_seed(8)
    generator = torch.Generator().manual_seed(8)
    device = xm.xla_device()

    model = Matcher().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, eta_min=4e-4)
    torch_xla.sync()

    start = time.time()
    for step in range(STEPS):
        src, dst, match = (t.to(device) for t in sample_pair(generator))
        log_plan = model(src, dst)
        loss = matching_loss(log_plan, match)
        accuracy = (log_plan.argmax(dim=2) == match).float().mean()

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        sched.step()
        torch_xla.sync()

        if step % 5 == 4:
            print(f"step {step:3d} loss {loss.item():.4f} acc {accuracy.item():.3f}")
    print(f"done in {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
