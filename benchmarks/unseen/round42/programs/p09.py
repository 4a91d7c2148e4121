"""Transfer a patch transformer to a new task in stages.

Stage 1 trains the new head on a frozen trunk, stage 2 trains everything, and
the last part keeps an average of the weights (SWA) that is used at the end.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.optim.swa_utils import AveragedModel


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class Trunk(nn.Module):
    def __init__(self, size=16, patch=4, dim=32, depth=2, heads=4):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, dim))
        self.layers = nn.ModuleList([EncoderLayer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean(1)


class Classifier(nn.Module):
    def __init__(self, trunk, classes, dim=32, dropout=0.1):
        super().__init__()
        self.trunk = trunk
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(dim, classes))

    def forward(self, x):
        return self.head(self.trunk(x))


class Textures:
    def __init__(self, classes, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.bank = torch.randn(classes, 3, 16, 16, generator=self.gen)
        self.classes = classes

    def batch(self, n):
        y = torch.randint(0, self.classes, (n,), generator=self.gen)
        x = 0.5 * self.bank[y] + torch.randn(n, 3, 16, 16, generator=self.gen)
        return x, y


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def param_groups(model, lr, trunk_scale):
    return [{"params": list(model.head.parameters()), "lr": lr},
            {"params": list(model.trunk.parameters()), "lr": lr * trunk_scale}]


@torch.no_grad()
def accuracy(model, batches, device):
    was_training = model.training
    model.eval()
    right = torch.zeros((), device=device)
    for x, y in batches:
        right += (model(x.to(device)).argmax(-1) == y.to(device)).sum()
        torch_xla.sync()
    model.train(was_training)
    return right.item() / sum(y.numel() for _, y in batches)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=64)
    ap.add_argument("--probe-steps", type=int, default=10)
    ap.add_argument("--swa-start", type=int, default=24)
    ap.add_argument("--swa-every", type=int, default=4)
    ap.add_argument("--eval-every", type=int, default=8)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    torch.manual_seed(31)
    device = torch_xla.device()
    data = Textures(5, seed=31)
    held_out = [data.batch(args.batch) for _ in range(3)]
    model = Classifier(Trunk(), 5).to(device)
    averaged = AveragedModel(model, device=device, use_buffers=False)
    torch_xla.sync()

    set_trainable(model.trunk, False)
    opt = torch.optim.AdamW(model.head.parameters(), lr=args.lr)

    for step in range(args.steps):
        if step == args.probe_steps:
            set_trainable(model.trunk, True)
            opt = torch.optim.AdamW(param_groups(model, args.lr, 0.3), weight_decay=0.02)

        x, y = data.batch(args.batch)
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()

        if step >= args.swa_start and step % args.swa_every == 0:
            averaged.update_parameters(model)
            torch_xla.sync()
        if (step + 1) % args.eval_every == 0:
            acc = accuracy(model, held_out, device)
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  acc {acc:.3f}")

    acc = accuracy(averaged.module, held_out, device)
    print(f"averaged over {int(averaged.n_averaged.item())} snapshots: acc {acc:.3f}")


if __name__ == "__main__":
    main()
