import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm


class MHSA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (d // self.h) ** -0.5
        x = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MHSA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, img=16, patch=4, dim=16, depth=2, heads=2, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, (img // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x)[:, 0])


def freeze_all_but_head(model):
    for name, p in model.named_parameters():
        p.requires_grad = name.startswith(("head", "norm"))


def unfreeze_last_block(model, opt, lr):
    params = list(model.blocks[-1].parameters())
    for p in params:
        p.requires_grad = True
    opt.add_param_group({"params": params, "lr": lr})


def main():
    torch.manual_seed(10)
    device = xm.xla_device()
    labels = torch.randint(0, 5, (60,))
    images = torch.randn(60, 3, 16, 16) + labels.view(-1, 1, 1, 1) * 0.3
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
    model = ViT().to(device)
    freeze_all_but_head(model)
    opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for epoch in range(4):
        if epoch == 2:
            unfreeze_last_block(model, opt, lr=0.01)
        running, n = 0.0, 0
        losses = []
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            xm.mark_step()
            losses.append(loss.detach())
            n += 1
        running = sum(l.item() for l in losses)
        print(f"epoch {epoch} train loss {running / n:.4f}")


if __name__ == "__main__":
    main()
