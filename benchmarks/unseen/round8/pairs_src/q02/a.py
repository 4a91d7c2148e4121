import math
import torch, torch.nn as nn, torch.nn.functional as F
import xdump

V, T, B, D, H = 97, 24, 4, 32, 4


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4).unbind(0)
        att = q @ k.transpose(-1, -2) / math.sqrt(D // H)
        att = att.masked_fill(mask, float("-inf")).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, D))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = Attn()
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x, mask):
        x = x + self.attn(self.n1(x), mask)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(D)

    def forward(self, ids):
        t = ids.shape[1]
        mask = torch.triu(torch.ones(t, t, device=ids.device), diagonal=1).bool()
        x = self.tok(ids) + self.pos[:t]
        for b in self.blocks:
            x = b(x, mask)
        return self.norm(x) @ self.tok.weight.t()


xdump.seed(2)
dev = xdump.device()
net = GPT().to(dev)
opt = torch.optim.AdamW(net.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
ids = torch.randint(0, V, (2, B, T + 1)).to(dev)
xdump.sync()


def step(i):
    opt.zero_grad()
    logits = net(ids[i][:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, V), ids[i][:, 1:].reshape(-1))
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
