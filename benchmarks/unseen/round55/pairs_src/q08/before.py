import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Attention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def split(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        attn = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        attn = F.softmax(attn, dim=-1)
        x = torch.matmul(attn, v).transpose(1, 2).flatten(2)
        return self.proj(x)


class Block(nn.Module):

    def __init__(self, dim, heads, ratio=2):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ratio * dim)
        self.fc2 = nn.Linear(ratio * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):

    def __init__(self, size=16, patch=4, dim=16, depth=1, heads=2, classes=7):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.size(0), -1, -1), x], dim=1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def loss_fn(logits, target, smoothing=0.1):
    logp = F.log_softmax(logits, dim=-1)
    nll = -logp.gather(-1, target[:, None]).squeeze(-1)
    smooth = -logp.mean(-1)
    return ((1.0 - smoothing) * nll + smoothing * smooth).mean()


def make_optimizer(model, lr=0.05, wd=0.01):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim == 1 or "pos_embed" in name or "cls_token" in name else decay).append(p)
    return torch.optim.SGD([{"params": decay, "weight_decay": wd}, {"params": no_decay}],
                           lr=lr, momentum=0.9)


def main(args):
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = ViT()
    if args.init:
        model.load_state_dict(torch.load(args.init))
    model = model.to(device)
    optimizer = make_optimizer(model)
    gen = torch.Generator().manual_seed(args.seed)
    losses = []
    torch_xla.sync()
    for _ in range(args.steps):
        x = torch.randn(4, 3, 16, 16, generator=gen).to(device)
        y = torch.randint(7, (4,), generator=gen).to(device)
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        losses.append(loss.detach())
    print([round(l.item(), 7) for l in losses])
    if args.save:
        torch.save({k: v.cpu() for k, v in model.state_dict().items()}, args.save)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--init", default="")
    p.add_argument("--save", default="")
    main(p.parse_args())
