"""Fine-tunes a miniature ViT on leaf-disease crops."""
import dataclasses

import torch
import torch.nn as nn
import torch_xla


@dataclasses.dataclass
class Settings:
    image: int = 16
    patch: int = 4
    dim: int = 24
    heads: int = 3
    depth: int = 2
    classes: int = 5
    batch: int = 4
    lr: float = 4e-4
    betas: tuple = (0.9, 0.98)
    smoothing: float = 0.1
    steps: int = 3


class Mlp(nn.Module):
    def __init__(self, d, r=2):
        super().__init__()
        self.a, self.b = nn.Linear(d, r * d), nn.Linear(r * d, d)

    def forward(self, x):
        return self.b(torch.nn.functional.gelu(self.a(x)))


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(s.dim), nn.LayerNorm(s.dim)
        self.att = nn.MultiheadAttention(s.dim, s.heads, batch_first=True)
        self.mlp = Mlp(s.dim)
        self.g1, self.g2 = (nn.Parameter(torch.full((s.dim,), 0.1)) for _ in range(2))

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.g1 * self.att(h, h, h, need_weights=False)[0]
        return x + self.g2 * self.mlp(self.ln2(x))


class ViT(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Conv2d(3, s.dim, s.patch, stride=s.patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, s.dim))
        self.pos = nn.Parameter(torch.randn(1, (s.image // s.patch) ** 2 + 1, s.dim) * 0.02)
        self.layers = nn.Sequential(*[Layer(s) for _ in range(s.depth)])
        self.norm = nn.LayerNorm(s.dim)
        self.head = nn.Linear(s.dim, s.classes)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.layers(x))[:, 0])


def build_optimizer(model, s):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=s.lr, betas=s.betas)


def main():
    s = Settings()
    torch.manual_seed(21)
    device = torch_xla.device()
    model = ViT(s).to(device).train()
    criterion = nn.CrossEntropyLoss(label_smoothing=s.smoothing)
    optimizer = build_optimizer(model, s)
    torch_xla.sync()
    for step in range(s.steps):
        img = torch.randn(s.batch, 3, s.image, s.image).to(device)
        lab = torch.randint(s.classes, (s.batch,)).to(device)
        loss = criterion(model(img), lab)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"[{step}] {loss.item():.4f}")


if __name__ == "__main__":
    main()
