"""Jet flavour tagging: attention over a padded set of tracks."""
import argparse

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

    def split(self, x):
        return x.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, pair, valid):
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        score = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.head_dim**-0.5
        score = score + self.coupling.view(1, -1, 1, 1) * pair.unsqueeze(1)
        att = score.masked_fill(~valid.bool()[:, None, None, :], -1e9).softmax(-1)
        out = torch.einsum("bhqk,bhkd->bqhd", att, v)
        return self.proj(out.flatten(2))


class Layer(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.attn = TrackAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x, pair, valid):
        x = x + self.attn(x, pair, valid)
        return x + self.down(F.silu(self.up(self.norm(x))))


def pairwise(angles):
    delta = angles.unsqueeze(2) - angles.unsqueeze(1)
    return -torch.log(delta.pow(2).sum(-1) + 1e-3)


class JetTagger(nn.Module):

    def __init__(self, feats=5, dim=12, heads=2, depth=1, flavours=3):
        super().__init__()
        self.embed = nn.Linear(feats, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, flavours)

    def forward(self, tracks, valid):
        pair = pairwise(tracks[..., 1:3])
        x = self.embed(tracks)
        for layer in self.layers:
            x = layer(x, pair, valid)
        x = torch.einsum("bt,btd->bd", valid, x) / valid.sum(1, keepdim=True)
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
        loss = F.cross_entropy(model(x, valid), y, label_smoothing=0.1)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.6f}", met.counter_value("UncachedCompile"))
    if args.save:
        xm.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
