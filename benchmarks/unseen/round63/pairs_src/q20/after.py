"""Product-image embeddings with Proxy-Anchor loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stages = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.stages(x)


class Head(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        self.fc = nn.Linear(width, dim)
        self.norm = nn.LayerNorm(width)

    def forward(self, feat):
        flat = feat.flatten(2)
        pooled = flat.amax(-1) + flat.mean(-1)
        return F.normalize(self.fc(self.norm(pooled)), dim=-1)


class ProxyAnchorLoss(nn.Module):
    def __init__(self, n_classes, dim, margin=0.1, alpha=16.0):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(n_classes, dim) * 0.3)
        self.margin = margin
        self.alpha = alpha

    def similarity(self, emb):
        return torch.einsum("bd,cd->bc", emb, F.normalize(self.proxies, dim=-1))

    def forward(self, emb, labels):
        cos = self.similarity(emb)
        classes = torch.arange(self.proxies.size(0), device=labels.device)
        same = labels[:, None] == classes[None, :]
        zero = torch.zeros_like(cos)
        push = torch.where(same, zero, torch.exp(self.alpha * (cos + self.margin))).sum(0)
        pull = torch.where(same, torch.exp(self.alpha * (self.margin - cos)), zero).sum(0)
        present = same.any(0).sum()
        return torch.log1p(push).mean() + torch.log1p(pull).sum() / present


class Model(nn.Module):
    def __init__(self, dim=12, width=8):
        super().__init__()
        self.backbone = Backbone(width)
        self.head = Head(2 * width, dim)

    def forward(self, x):
        return self.head(self.backbone(x))


def build_optimizer(model, criterion, lr=1e-3, proxy_lr=1e-2, weight_decay=1e-4):
    groups = [
        {"params": list(criterion.parameters()), "lr": proxy_lr},
        {"params": list(model.parameters()), "lr": lr},
    ]
    return torch.optim.AdamW(groups, weight_decay=weight_decay)


def images(n, batch_size, n_classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield (torch.randn(batch_size, 3, 16, 16, generator=g),
               torch.randint(0, n_classes, (batch_size,), generator=g))


def train_step(model, criterion, opt, x, y):
    loss = criterion(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def main(steps=5, n_classes=7):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Model().to(device)
    criterion = ProxyAnchorLoss(n_classes, 12).to(device)
    opt = build_optimizer(model, criterion)
    torch_xla.sync()
    for x, y in images(steps, 8, n_classes):
        loss = train_step(model, criterion, opt, x.to(device), y.to(device))
        torch_xla.sync()
    print(loss.item())


if __name__ == "__main__":
    main()
