"""Keypoint matching between two satellite tiles: attention over descriptors, optimal transport (inference)."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

D, HEADS, NA, NB, ITERS = 16, 2, 9, 7, 4


class KeypointEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, D))

    def forward(self, kpts, scores):
        return self.net(torch.cat([kpts, scores.unsqueeze(-1)], -1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D, D)
        self.v = nn.Linear(D, D)
        self.merge = nn.Linear(D, D)
        self.mlp = nn.Sequential(nn.Linear(2 * D, 2 * D), nn.LayerNorm(2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], HEADS, D // HEADS).transpose(1, 2)

    def forward(self, x, src):
        q, k, v = self.split(self.q(x)), self.split(self.k(src)), self.split(self.v(src))
        att = torch.softmax(q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5, -1)
        msg = self.merge((att @ v).transpose(1, 2).reshape(x.shape))
        return x + self.mlp(torch.cat([x, msg], -1))


def sinkhorn(z, log_mu, log_nu, iters):
    u, v = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
    for _ in range(iters):
        v = log_nu - torch.logsumexp(z + u.unsqueeze(2), dim=1)
        u = log_mu - torch.logsumexp(z + v.unsqueeze(1), dim=2)
    return z + u.unsqueeze(2) + v.unsqueeze(1)


def transport(scores, dustbin, iters):
    b, m, n = scores.shape
    bins0 = dustbin.expand(b, m, 1)
    bins1 = dustbin.expand(b, 1, n)
    corner = dustbin.expand(b, 1, 1)
    z = torch.cat([torch.cat([scores, bins0], -1), torch.cat([bins1, corner], -1)], 1)
    norm = -torch.log(torch.tensor(float(m + n)))
    log_mu = torch.cat([norm.expand(m), (torch.log(torch.tensor(float(n))) + norm).view(1)])
    log_nu = torch.cat([norm.expand(n), (torch.log(torch.tensor(float(m))) + norm).view(1)])
    log_mu = log_mu.to(z.device).expand(b, -1)
    log_nu = log_nu.to(z.device).expand(b, -1)
    return sinkhorn(z, log_mu, log_nu, iters) - norm.item()


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.kenc = KeypointEncoder()
        self.layers = nn.ModuleList([Attention() for _ in range(2)])
        self.final = nn.Linear(D, D)
        self.dustbin = nn.Parameter(torch.tensor(1.0))

    def forward(self, da, db, ka, kb, sa, sb):
        xa = da + self.kenc(ka, sa)
        xb = db + self.kenc(kb, sb)
        for i, layer in enumerate(self.layers):
            if i % 2 == 0:
                xa, xb = layer(xa, xa), layer(xb, xb)
            else:
                xa, xb = layer(xa, xb), layer(xb, xa)
        fa, fb = self.final(xa), self.final(xb)
        scores = torch.einsum("bmd,bnd->bmn", fa, fb) / D ** 0.5
        log_p = transport(scores, self.dustbin, ITERS)
        val0, idx0 = log_p[:, :-1, :-1].max(2)
        _, idx1 = log_p[:, :-1, :-1].max(1)
        mutual = torch.arange(NA, device=da.device).unsqueeze(0) == idx1.gather(1, idx0)
        conf = torch.where(mutual, val0.exp(), torch.zeros_like(val0))
        match = torch.where(conf > 0.05, idx0, torch.full_like(idx0, -1))
        return match, conf, log_p


@torch.no_grad()
def main(out):
    torch.manual_seed(21)
    dev = torch_xla.device()
    model = Matcher().eval().to(dev)
    g = torch.Generator().manual_seed(8)
    for step in range(2):
        args = [F.normalize(torch.randn(2, n, D, generator=g), dim=-1) for n in (NA, NB)]
        args += [torch.rand(2, n, 2, generator=g) for n in (NA, NB)]
        args += [torch.rand(2, n, generator=g) for n in (NA, NB)]
        match, conf, log_p = model(*[x.to(dev) for x in args])
        if step == 1:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([match, conf, log_p]))
        torch_xla.sync()
        print(step, conf.sum().item(), log_p.sum().item())


main(sys.argv[1])
