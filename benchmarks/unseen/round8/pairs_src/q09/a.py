import math
import torch, torch.nn as nn, torch.nn.functional as F
import xdump

V, T, B, D, H, KV = 73, 16, 3, 32, 8, 2
HD = D // H


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(D))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def repeat_kv(x, n):
    b, kv, t, hd = x.shape
    x = x[:, :, None].expand(b, kv, n, t, hd)
    return x.reshape(b, kv * n, t, hd)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(D, H * HD, bias=False)
        self.wk = nn.Linear(D, KV * HD, bias=False)
        self.wv = nn.Linear(D, KV * HD, bias=False)
        self.wo = nn.Linear(H * HD, D, bias=False)

    def forward(self, x, cos, sin, bias):
        b, t, _ = x.shape
        q = rope(self.wq(x).view(b, t, H, HD).transpose(1, 2), cos, sin)
        k = rope(self.wk(x).view(b, t, KV, HD).transpose(1, 2), cos, sin)
        v = self.wv(x).view(b, t, KV, HD).transpose(1, 2)
        k, v = repeat_kv(k, H // KV), repeat_kv(v, H // KV)
        s = (q @ k.transpose(-1, -2)) / math.sqrt(HD) + bias
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, D))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn = RMSNorm(), RMSNorm(), Attn()
        self.g, self.u, self.d = (nn.Linear(D, 48, bias=False), nn.Linear(D, 48, bias=False), nn.Linear(48, D, bias=False))

    def forward(self, x, *a):
        x = x + self.attn(self.n1(x), *a)
        h = self.n2(x)
        return x + self.d(F.silu(self.g(h)) * self.u(h))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.head = RMSNorm(), nn.Linear(D, V, bias=False)
        f = torch.outer(torch.arange(T).float(), 10000.0 ** (-torch.arange(0, HD, 2).float() / HD))
        f = torch.cat([f, f], -1)
        self.register_buffer("cos", f.cos())
        self.register_buffer("sin", f.sin())
        self.register_buffer("bias", torch.full((T, T), -1e9).triu(1))

    def forward(self, ids):
        x = self.emb(ids)
        for l in self.layers:
            x = l(x, self.cos, self.sin, self.bias)
        return self.head(self.norm(x))


xdump.seed(9)
dev = xdump.device()
net = LM().to(dev)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
ids = torch.randint(0, V, (2, B, T + 1)).to(dev)
xdump.sync()


def step(i):
    opt.zero_grad()
    loss = F.cross_entropy(net(ids[i][:, :-1]).flatten(0, 1), ids[i][:, 1:].reshape(-1))
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
