"""Self-distillation (DINO style) on leaf-disease crops with a very small vision transformer."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DIM, PATCH, SIZE = 16, 4, 16


class Block(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (a.view(b, n, self.heads, -1).transpose(1, 2) for a in (q, k, v))
        att = (q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, DIM, PATCH, stride=PATCH, bias=False)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (SIZE // PATCH) ** 2, DIM))
        self.block = Block(DIM)

    def forward(self, x):
        h = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        return self.block(h).mean(1)


class DinoHead(nn.Module):
    def __init__(self, dim, out_dim, bottleneck=8):
        super().__init__()
        self.mlp = nn.Linear(dim, bottleneck)
        self.last_layer = nn.Linear(bottleneck, out_dim, bias=False)

    def forward(self, x):
        x = F.normalize(self.mlp(x), dim=-1)
        return self.last_layer(x)


class DinoLoss(nn.Module):
    def __init__(self, out_dim, student_temp=0.1, teacher_temp=0.04, momentum=0.9):
        super().__init__()
        self.student_temp, self.teacher_temp, self.momentum = student_temp, teacher_temp, momentum
        self.register_buffer("center", torch.zeros(1, out_dim))

    def forward(self, student, teacher):
        s = F.log_softmax(student / self.student_temp, dim=-1).chunk(2)
        t = F.softmax((teacher - self.center) / self.teacher_temp, dim=-1).detach().chunk(2)
        loss = -0.5 * ((t[0] * s[1]).sum(-1).mean() + (t[1] * s[0]).sum(-1).mean())
        with torch.no_grad():
            self.center = self.center * self.momentum + teacher.mean(0, keepdim=True) * (1 - self.momentum)
        return loss


def cosine(base, final, total):
    return [final + 0.5 * (base - final) * (1 + math.cos(math.pi * i / total)) for i in range(total)]


def cancel_gradients_last_layer(epoch, model, freeze_last_layer):
    if epoch >= freeze_last_layer:
        return
    for n, p in model.named_parameters():
        if "last_layer" in n:
            p.grad = None


def augment(x):
    b = x.shape[0]
    gain = 1 + 0.4 * (torch.rand(b, 3, 1, 1) - 0.5)
    flip = torch.rand(b, 1, 1, 1) < 0.5
    x = torch.where(flip, x.flip(-1), x)
    return (x * gain + 0.05 * torch.randn_like(x)).clamp(0, 1)


def crops(n):
    base = torch.rand(n, 3, 1, 1) * 0.5
    base[:, 1] += 0.3
    spots = F.interpolate((torch.rand(n, 1, 4, 4) > 0.7).float(), size=SIZE, mode="bilinear")
    return (base + 0.3 * spots * torch.tensor([1.0, -0.5, -0.5]).view(1, 3, 1, 1)).clamp(0, 1)


def main(epochs=3, iters=4, bs=8, out_dim=24, freeze_last_layer=1):
    torch.manual_seed(13)
    device = torch_xla.device()
    student = nn.Sequential(Encoder(), DinoHead(DIM, out_dim))
    teacher = copy.deepcopy(student).requires_grad_(False)
    student, teacher = student.to(device), teacher.to(device)
    criterion = DinoLoss(out_dim).to(device)
    decay = [p for p in student.parameters() if p.ndim > 1]
    plain = [p for p in student.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay}, {"params": plain, "weight_decay": 0.0}], lr=5e-4)
    lrs = cosine(5e-4, 1e-5, epochs * iters)
    wds = cosine(0.04, 0.4, epochs * iters)
    momenta = cosine(0.996, 1.0, epochs * iters)

    for epoch in range(epochs):
        for i in range(iters):
            it = epoch * iters + i
            for k, group in enumerate(opt.param_groups):
                group["lr"] = lrs[it]
                if k == 0:
                    group["weight_decay"] = wds[it]
            x = crops(bs)
            views = torch.cat([augment(x), augment(x)]).to(device)
            with torch.no_grad():
                t_out = teacher(views)
            loss = criterion(student(views), t_out)
            opt.zero_grad()
            loss.backward()
            cancel_gradients_last_layer(epoch, student, freeze_last_layer)
            opt.step()
            with torch.no_grad():
                for ps, pt in zip(student.parameters(), teacher.parameters()):
                    pt.mul_(momenta[it]).add_((1 - momenta[it]) * ps.detach())
            torch_xla.sync()
            print(f"[{epoch}:{i}] {loss.item():.4f}")


if __name__ == "__main__":
    main()
