import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1) * (d // self.h) ** -0.5).softmax(-1)
        x = x + self.proj((a @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, d=16, h=2, depth=1, patch=4, size=16):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, d) * 0.02)
        self.blocks = nn.ModuleList([Block(d, h) for _ in range(depth)])

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return x[:, 0]


class DINOHead(nn.Module):
    def __init__(self, d, out=32, hidden=24, bottleneck=8):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, bottleneck))
        self.last_layer = nn.Linear(bottleneck, out, bias=False)

    def forward(self, x):
        return self.last_layer(F.normalize(self.mlp(x), dim=-1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = ViT()
        self.head = DINOHead(16)

    def forward(self, x):
        return self.head(self.backbone(x))


class DINOLoss(nn.Module):
    def __init__(self, out, t_s=0.1, t_t=0.04, momentum=0.9):
        super().__init__()
        self.t_s, self.t_t, self.m = t_s, t_t, momentum
        self.register_buffer("center", torch.zeros(1, out))

    def forward(self, student, teacher):
        s = [F.log_softmax(v / self.t_s, -1) for v in student.chunk(2)]
        t = [F.softmax((v - self.center) / self.t_t, -1) for v in teacher.detach().chunk(2)]
        loss = -((t[0] * s[1]).sum(-1).mean() + (t[1] * s[0]).sum(-1).mean()) / 2
        with torch.no_grad():
            self.center.mul_(self.m).add_(teacher.mean(0, keepdim=True), alpha=1 - self.m)
        return loss


def cancel_gradients_last_layer(epoch, model, freeze_last_layer):
    if epoch >= freeze_last_layer:
        return
    for n, p in model.named_parameters():
        if "last_layer" in n:
            p.grad = None


def cosine(base, final, total):
    return [final + 0.5 * (base - final) * (1 + math.cos(math.pi * i / total)) for i in range(total)]


def main(epochs=3, iters=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    student = Net().to(device)
    teacher = copy.deepcopy(student).requires_grad_(False)
    criterion = DINOLoss(32).to(device)
    decay, no_decay = [], []
    for n, p in student.named_parameters():
        (no_decay if p.ndim <= 1 else decay).append(p)
    opt = torch.optim.SGD([{"params": decay}, {"params": no_decay, "weight_decay": 0.0}], lr=0.05, momentum=0.9, weight_decay=1e-4)
    lrs = cosine(0.05, 1e-4, epochs * iters)
    momenta = cosine(0.99, 0.9999, epochs * iters)
    data = torch.rand(iters, 8, 3, 16, 16)
    torch_xla.sync()

    it = 0
    for epoch in range(epochs):
        for i in range(iters):
            v1 = data[i] + 0.1 * torch.randn_like(data[i])
            v2 = data[i].flip(-1) + 0.1 * torch.randn_like(data[i])
            views = torch.cat([v1, v2]).to(device)
            for g in opt.param_groups:
                g["lr"] = lrs[it]
            opt.zero_grad(set_to_none=True)
            with torch.no_grad():
                t_out = teacher(views)
            loss = criterion(student(views), t_out)
            loss.backward()
            cancel_gradients_last_layer(epoch, student, freeze_last_layer=1)
            opt.step()
            with torch.no_grad():
                for ps, pt in zip(student.parameters(), teacher.parameters()):
                    pt.mul_(momenta[it]).add_(ps.detach(), alpha=1 - momenta[it])
            torch_xla.sync()
            it += 1
        print(epoch, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
