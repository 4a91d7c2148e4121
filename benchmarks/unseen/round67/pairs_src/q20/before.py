"""Jet flavour tagging: attention over a padded set of tracks."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


class TrackAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.coupling = nn.Parameter(torch.zeros(heads))

    def forward(self, x, pair, valid):
        q, k, v = self.query(x), self.key(x), self.value(x)
        outs = []
        for i in range(self.heads):
            lo, hi = i * self.head_dim, (i + 1) * self.head_dim
            score = torch.matmul(q[..., lo:hi], k[..., lo:hi].transpose(1, 2)) / math.sqrt(self.head_dim)
            score = score + self.coupling[i] * pair
            score = score + (1.0 - valid.unsqueeze(1)) * -1e9
            score = score - score.max(-1, keepdim=True).values.detach()
            e = torch.exp(score)
            att = e / e.sum(-1, keepdim=True)
            outs.append(torch.matmul(att, v[..., lo:hi]))
        return self.proj(torch.cat(outs, -1))


class Layer(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.attn = TrackAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x, pair, valid):
        x = x + self.attn(x, pair, valid)
        h = self.up(self.norm(x))
        h = h * torch.sigmoid(h)
        return x + self.down(h)


class JetTagger(nn.Module):

    def __init__(self, feats=5, dim=12, heads=2, depth=1, flavours=3):
        super().__init__()
        self.embed = nn.Linear(feats, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, flavours)

    def forward(self, tracks, valid):
        eta, phi = tracks[..., 1], tracks[..., 2]
        deta = eta.unsqueeze(2) - eta.unsqueeze(1)
        dphi = phi.unsqueeze(2) - phi.unsqueeze(1)
        pair = -torch.log(deta * deta + dphi * dphi + 1e-3)
        x = self.embed(tracks)
        for layer in self.layers:
            x = layer(x, pair, valid)
        x = (x * valid.unsqueeze(-1)).sum(1) / valid.sum(1, keepdim=True)
        return self.head(x)


def jets(n, tracks, gen):
    y = torch.randint(0, 3, (n,), generator=gen)
    x = torch.randn(n, tracks, 5, generator=gen)
    x[..., 3] += y[:, None] * 0.8
    count = torch.randint(2, tracks + 1, (n,), generator=gen)
    valid = (torch.arange(tracks)[None] < count[:, None]).float()
    return x * valid[..., None], valid, y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--save")
    args = ap.parse_args()
    torch.manual_seed(20)
    gen = torch.Generator().manual_seed(20)
    dev = xm.xla_device()
    model = JetTagger().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for i in range(args.steps):
        x, valid, y = (t.to(dev) for t in jets(8, 7, gen))
        opt.zero_grad()
        logits = model(x, valid)
        logp = F.log_softmax(logits, -1)
        picked = -(F.one_hot(y, 3) * logp).sum(-1)
        loss = 0.9 * picked.mean() + 0.1 * -logp.mean(-1).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.6f}", met.counter_value("UncachedCompile"))
    if args.save:
        xm.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
