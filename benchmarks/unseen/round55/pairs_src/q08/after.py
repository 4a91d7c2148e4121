import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def attention(q, k, v):
    scores = torch.einsum("bqhd,bkhd->bhqk", q * q.size(-1) ** -0.5, k)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


class Mlp(nn.Module):

    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        v, k, q = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.v, self.k, self.q))
        return self.proj(attention(q, k, v).flatten(-2))


class EncoderLayer(nn.Module):

    def __init__(self, dim, heads, ratio=2):
        super().__init__()
        self.attn = SelfAttention(dim, heads)
        self.mlp = Mlp(dim, ratio * dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.attn(self.norm1(x)) + x
        return self.mlp(self.norm2(x)) + x


class PatchEmbed(nn.Module):

    def __init__(self, size, patch, dim):
        super().__init__()
        self.pos_embed = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, dim))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.proj = nn.Conv2d(3, dim, patch, patch)

    def forward(self, x):
        x = self.proj(x).flatten(2).mT + self.pos_embed[:, 1:]
        cls = (self.cls_token + self.pos_embed[:, :1]).expand(x.size(0), -1, -1)
        return torch.cat((cls, x), 1)


class VisionTransformer(nn.Module):

    def __init__(self, size=16, patch=4, dim=16, depth=1, heads=2, classes=7):
        super().__init__()
        self.embed = PatchEmbed(size, patch, dim)
        self.layers = nn.Sequential(*[EncoderLayer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.layers(self.embed(x))
        return self.head(self.norm(x[:, 0]))


def make_optimizer(model, lr=0.05, wd=0.01):
    skip = {id(model.embed.pos_embed), id(model.embed.cls_token)}
    no_decay = [p for p in model.parameters() if p.ndim == 1 or id(p) in skip]
    decay = [p for p in model.parameters() if p.ndim > 1 and id(p) not in skip]
    return torch.optim.SGD([{"params": no_decay}, {"params": decay, "weight_decay": wd}],
                           lr=lr, momentum=0.9)


RENAMED = (("layers.", "blocks."), ("mlp.", ""), ("embed.proj.", "patch_embed."),
           ("embed.cls_token", "cls_token"), ("embed.pos_embed", "pos_embed"))


def old_name(key):
    for new, old in RENAMED:
        key = key.replace(new, old)
    return key


def main(args):
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = VisionTransformer()
    if args.init:
        state = torch.load(args.init)
        model.load_state_dict({k: state[old_name(k)] for k in model.state_dict()})
    model = model.to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = make_optimizer(model)
    gen = torch.Generator().manual_seed(args.seed)
    losses = []
    torch_xla.sync()
    for _ in range(args.steps):
        x = torch.randn(4, 3, 16, 16, generator=gen).to(device)
        y = torch.randint(7, (4,), generator=gen).to(device)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.detach())
    print([round(l.item(), 7) for l in losses])
    if args.save:
        torch.save({old_name(k): v.cpu() for k, v in model.state_dict().items()}, args.save)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--init", default="")
    p.add_argument("--save", default="")
    main(p.parse_args())
