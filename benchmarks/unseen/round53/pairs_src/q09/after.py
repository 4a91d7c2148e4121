"""Small vision transformer in bfloat16 on XLA, with float32 master weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Attention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1, dtype=torch.float32).to(v.dtype)
        x = (attn @ v).transpose(1, 2).reshape(b, n, c)
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

    def __init__(self, size=32, patch=8, dim=32, depth=2, heads=4, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x).mean(dim=1))


class MasterSGD:

    def __init__(self, params, lr, momentum=0.9):
        self.params = list(params)
        self.lr = lr
        self.momentum = momentum
        self.master = [p.detach().float().clone() for p in self.params]
        self.buf = [torch.zeros_like(m) for m in self.master]

    @torch.no_grad()
    def step(self):
        for p, m, b in zip(self.params, self.master, self.buf):
            b.mul_(self.momentum).add_(p.grad.float())
            m.add_(b, alpha=-self.lr)
            p.copy_(m)
            p.grad = None


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = ViT().to(device, torch.bfloat16)
    opt = MasterSGD(model.parameters(), lr=0.01)
    torch_xla.sync()
    for step in range(steps):
        x = torch.randn(8, 3, 32, 32).to(device, torch.bfloat16)
        y = torch.randint(0, 10, (8,)).to(device)
        logits = model(x)
        loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == '__main__':
    main()
