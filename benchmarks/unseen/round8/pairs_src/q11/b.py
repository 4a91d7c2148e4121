import math
import torch, torch.nn as nn, torch.nn.functional as F
import xdump

B, IMG, P, D, H, C = 4, 16, 4, 32, 4, 7


class Attn(nn.Module):
    def __init__(self, attn_drop):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.attn_drop = attn_drop

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-1, -2) * (D // H) ** -0.5).softmax(-1)
        if self.training and self.attn_drop > 0:
            a = F.dropout(a, self.attn_drop)
        return self.proj((a @ v).transpose(1, 2).reshape(b, t, D))


class Block(nn.Module):
    def __init__(self, attn_drop):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = Attn(attn_drop)
        self.fc1, self.fc2 = nn.Linear(D, 64), nn.Linear(64, D)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + F.dropout(self.fc2(F.gelu(self.fc1(self.norm2(x)))), 0.1, self.training)


class ViT(nn.Module):
    def __init__(self, depth=3, attn_drop=0.0):
        super().__init__()
        self.patch = nn.Conv2d(3, D, P, P)
        self.cls = nn.Parameter(torch.zeros(1, 1, D))
        self.pos = nn.Parameter(torch.randn(1, (IMG // P) ** 2 + 1, D) * 0.02)
        self.blocks = nn.ModuleList(Block(attn_drop) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, C)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


def param_groups(m, wd):
    decay = [p for n, p in m.named_parameters() if p.ndim > 1]
    rest = [p for n, p in m.named_parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]


xdump.seed(11)
dev = xdump.device()
net = ViT().to(dev)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.05)
X = torch.randn(2, B, 3, IMG, IMG).to(dev)
Y = torch.randint(0, C, (2, B)).to(dev)
xdump.sync()


def step(i):
    opt.zero_grad()
    loss = F.cross_entropy(net(X[i]), Y[i], label_smoothing=0.1)
    loss.backward()
    opt.step()
    return loss


step(0)
xdump.sync()
loss = step(1)
named = list(net.named_parameters())
live = {"loss": loss}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
