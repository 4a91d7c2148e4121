"""Attentive neural process for sparse Argo float temperature profiles."""
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

DX, DY, R = 3, 1, 12
N_CONTEXT, N_TARGET = 6, 10


class Gaussian(NamedTuple):
    mean: torch.Tensor
    std: torch.Tensor

    def rsample(self, eps):
        return self.mean + self.std * eps

    def log_prob(self, y):
        return -0.5 * ((y - self.mean) / self.std) ** 2 - torch.log(self.std) - 0.5 * math.log(2 * math.pi)


def kl_divergence(p, q):
    return torch.log(q.std / p.std) + (p.std ** 2 + (p.mean - q.mean) ** 2) / (2 * q.std ** 2) - 0.5


class MLP(nn.Module):
    def __init__(self, n_in, n_out, pool=False):
        super().__init__()
        self.inner = nn.Linear(n_in, R)
        self.outer = nn.Linear(R, n_out)
        self.pool = pool

    def forward(self, x):
        h = F.gelu(self.inner(x))
        if self.pool:
            h = h.mean(1)
        return self.outer(h)


class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(DX, R)

    def forward(self, query, key, value):
        k, q = self.proj(key), self.proj(query)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(R)
        return torch.matmul(scores.softmax(dim=-1), value)


class LatentEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = MLP(DX + DY, 2 * R, pool=True)

    def forward(self, pairs):
        mean, raw = self.mlp(pairs).chunk(2, dim=-1)
        return Gaussian(mean, 0.1 + 0.9 * raw.sigmoid())


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = MLP(DX + 2 * R, 2 * DY)

    def forward(self, x, r, z):
        z = z[:, None].expand(-1, x.size(1), -1)
        mean, raw = self.mlp(torch.cat([x, r, z], dim=-1)).chunk(2, dim=-1)
        return Gaussian(mean, 0.1 + 0.9 * F.softplus(raw))


class NeuralProcess(nn.Module):
    def __init__(self):
        super().__init__()
        self.latent = LatentEncoder()
        self.deterministic = MLP(DX + DY, R)
        self.attention = CrossAttention()
        self.decoder = Decoder()

    def forward(self, xc, yc, xt, yt, eps):
        target_pairs = torch.cat([xt, yt], dim=-1)
        context_pairs = torch.cat([xc, yc], dim=-1)
        posterior = self.latent(target_pairs)
        prior = self.latent(context_pairs)
        r = self.attention(xt, xc, self.deterministic(context_pairs))
        return self.decoder(xt, r, posterior.rsample(eps)), prior, posterior


def elbo_loss(predictive, prior, posterior, y):
    kl = kl_divergence(posterior, prior).sum(-1).mean()
    nll = -predictive.log_prob(y).sum(-1).mean()
    return nll + kl / y.size(1)


RENAMED = {
    "det_in": "deterministic.inner", "det_out": "deterministic.outer",
    "lat_in": "latent.mlp.inner", "lat_out": "latent.mlp.outer",
    "key_net": "attention.proj",
    "dec_in": "decoder.mlp.inner", "dec_out": "decoder.mlp.outer",
}


def convert_checkpoint(state):
    out = {}
    for k, v in state.items():
        stem, leaf = k.rsplit(".", 1)
        out[f"{RENAMED[stem]}.{leaf}"] = v
    return out


def profiles(n, g):
    x = torch.rand(n, N_TARGET, DX, generator=g) * 2 - 1
    depth = x[..., :1]
    y = 0.8 * torch.exp(-1.5 * (depth + 1)) + 0.1 * torch.sin(3 * x[..., 1:2])
    return x[:, :N_CONTEXT], y[:, :N_CONTEXT], x, y, torch.randn(n, R, generator=g)


def train_step(model, optimizer, batch):
    *inputs, eps = batch
    predictive, prior, posterior = model(*inputs, eps)
    loss = elbo_loss(predictive, prior, posterior, inputs[-1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    device = xm.xla_device()
    model = NeuralProcess().to(device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    xm.mark_step()
    for i in range(6):
        batch = [t.to(device) for t in profiles(8, g)]
        loss = train_step(model, optimizer, batch)
        xm.mark_step()
        print(i, loss.item(), met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
