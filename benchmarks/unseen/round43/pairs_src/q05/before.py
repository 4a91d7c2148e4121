"""Point-cloud registration, inference: attention over keypoints, log-domain Sinkhorn, weighted Procrustes inputs."""
import math
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N, M, DIM, HEADS, ITERS = 9, 11, 16, 2, 4


class CrossBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM)
        self.kv = nn.Linear(DIM, 2 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(2 * DIM, 2 * DIM), nn.LayerNorm(2 * DIM), nn.ReLU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x, src):
        q = self.q(x).view(-1, HEADS, DIM // HEADS)
        k, v = self.kv(src).view(-1, 2, HEADS, DIM // HEADS).unbind(1)
        att = torch.einsum("nhd,mhd->hnm", q, k) / math.sqrt(DIM // HEADS)
        msg = torch.einsum("hnm,mhd->nhd", att.softmax(-1), v).reshape(-1, DIM)
        return x + self.mlp(torch.cat([x, self.proj(msg)], dim=-1))


def log_sinkhorn(scores, dustbin, iters):
    n, m = scores.shape
    row = dustbin.expand(1, m)
    col = dustbin.expand(n + 1, 1)
    z = torch.cat([torch.cat([scores, row], 0), col], 1)
    norm = -math.log(n + m)
    log_mu = torch.cat([z.new_full((n,), norm), z.new_full((1,), math.log(m) + norm)])
    log_nu = torch.cat([z.new_full((m,), norm), z.new_full((1,), math.log(n) + norm)])
    u, v = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
    for _ in range(iters):
        u = log_mu - torch.logsumexp(z + v.unsqueeze(0), dim=1)
        v = log_nu - torch.logsumexp(z + u.unsqueeze(1), dim=0)
    return z + u.unsqueeze(1) + v.unsqueeze(0) - norm


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(4, DIM), nn.LayerNorm(DIM), nn.ReLU(), nn.Linear(DIM, DIM))
        self.self_block = CrossBlock()
        self.cross_block = CrossBlock()
        self.final = nn.Linear(DIM, DIM)
        self.dustbin = nn.Parameter(torch.tensor(0.5))

    def forward(self, a, b):
        fa, fb = self.enc(a), self.enc(b)
        fa, fb = self.self_block(fa, fa), self.self_block(fb, fb)
        fa, fb = self.cross_block(fa, fb), self.cross_block(fb, fa)
        fa, fb = self.final(fa), self.final(fb)
        scores = fa @ fb.t() / math.sqrt(DIM)
        plan = log_sinkhorn(scores, self.dustbin, ITERS).exp()[:-1, :-1]
        weight, index = plan.max(dim=1)
        w = weight / weight.sum().clamp(min=1e-6)
        target = b[:, :3][index]
        ca = (w.unsqueeze(-1) * a[:, :3]).sum(0)
        cb = (w.unsqueeze(-1) * target).sum(0)
        cov = (a[:, :3] - ca).t() @ (w.unsqueeze(-1) * (target - cb))
        return index, weight, ca, cb, cov


def make_pair(gen):
    return torch.randn(N, 4, generator=gen), torch.randn(M, 4, generator=gen)


def main(path):
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(42)
    dev = torch_xla.device()
    model = Matcher().to(dev).eval()
    for i in range(2):
        a, b = (t.to(dev) for t in make_pair(gen))
        torch_xla.sync()
        with torch.no_grad():
            index, weight, ca, cb, cov = model(a, b)
        if i == 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([index, weight, ca, cb, cov]))
        torch_xla.sync()
        print(i, index.tolist(), weight.sum().item(), cov.sum().item())


if __name__ == "__main__":
    main(sys.argv[1])
