"""Self-distillation (student / EMA teacher) on histology tiles."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, d))


class TileEncoder(nn.Module):
    def __init__(self, size=16, patch=4, dim=16, heads=2):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, dim))
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim, bias=False), nn.GELU(), nn.Linear(2 * dim, dim, bias=False))

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        x = x + self.attn(self.norm(x))
        x = x + self.mlp(self.norm(x))
        return self.norm(x).mean(1)


class ProjectionHead(nn.Module):
    def __init__(self, dim, hidden=24, bottleneck=12, prototypes=40):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.GELU(), nn.Linear(hidden, bottleneck, bias=False))
        self.last_layer = nn.Linear(bottleneck, prototypes, bias=False)

    def forward(self, x):
        z = F.normalize(self.mlp(x), dim=-1)
        return F.linear(z, F.normalize(self.last_layer.weight, dim=-1))


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = TileEncoder()
        self.head = ProjectionHead(16)

    def forward(self, x):
        return self.head(self.backbone(x))


class DistillLoss(nn.Module):
    def __init__(self, prototypes, student_temp=0.1, teacher_temp=0.05, momentum=0.9):
        super().__init__()
        self.student_temp, self.teacher_temp, self.momentum = student_temp, teacher_temp, momentum
        self.register_buffer("center", torch.zeros(1, prototypes))

    def forward(self, student, teacher):
        s = (student / self.student_temp).log_softmax(-1).chunk(2)
        t = ((teacher - self.center) / self.teacher_temp).softmax(-1).detach().chunk(2)
        loss = -0.5 * ((t[0] * s[1]).sum(-1).mean() + (t[1] * s[0]).sum(-1).mean())
        with torch.no_grad():
            self.center.mul_(self.momentum).add_((1 - self.momentum) * teacher.mean(0, keepdim=True))
        return loss


def cosine(start, end, it, total):
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * it / total))


def cancel_gradients_last_layer(epoch, model, freeze_last_layer):
    if epoch >= freeze_last_layer:
        return
    for n, p in model.named_parameters():
        if "last_layer" in n:
            p.grad = None


class Tiles:
    def __init__(self, batch, seed):
        self.rng, self.batch = np.random.default_rng(seed), batch

    def next(self):
        base = self.rng.normal(size=(self.batch, 3, 16, 16))
        views = [base + 0.2 * self.rng.normal(size=base.shape), base[..., ::-1]]
        return torch.tensor(np.concatenate(views), dtype=torch.float32)


def train_one_epoch(epoch, args, student, teacher, criterion, opt, tiles, device):
    total = args.epochs * args.iters
    for i in range(args.iters):
        it = epoch * args.iters + i
        for g in opt.param_groups:
            g["lr"] = cosine(args.lr, 1e-6, it, total)
            g["weight_decay"] = cosine(0.04, 0.4, it, total)
        views = tiles.next().to(device)
        with torch.no_grad():
            t_out = teacher(views)
        loss = criterion(student(views), t_out)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), args.clip)
        cancel_gradients_last_layer(epoch, student, args.freeze_last_layer)
        opt.step()
        m = cosine(0.99, 0.9995, it, total)
        with torch.no_grad():
            for ps, pt in zip(student.parameters(), teacher.parameters()):
                pt.mul_(m).add_(ps.detach(), alpha=1 - m)
        torch_xla.sync()
        print(f"epoch {epoch} it {it} loss {loss.item():.4f}")


def main(args):
    device = torch_xla.device()
    torch.manual_seed(args.seed)
    student, teacher = Branch().to(device), Branch().to(device)
    teacher.load_state_dict(student.state_dict())
    for p in teacher.parameters():
        p.requires_grad_(False)
    criterion = DistillLoss(40).to(device)
    opt = torch.optim.AdamW(student.parameters(), lr=args.lr)
    tiles = Tiles(args.batch, args.seed)
    torch_xla.sync()
    for epoch in range(args.epochs):
        train_one_epoch(epoch, args, student, teacher, criterion, opt, tiles, device)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--iters", type=int, default=4)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--clip", type=float, default=3.0)
    ap.add_argument("--freeze-last-layer", type=int, default=1)
    ap.add_argument("--seed", type=int, default=23)
    main(ap.parse_args())
