# char-level LM, context grows while training (short contexts first)
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

V, D, H, MAXT = 80, 48, 4, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(D)
        self.ln2 = nn.LayerNorm(D)
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.proj = nn.Linear(D, D, bias=False)
        self.up = nn.Linear(D, 4 * D)
        self.down = nn.Linear(4 * D, D)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(D // H)
        att = att.masked_fill(mask[:t, :t] == 0, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(V, D)
        self.pos = nn.Parameter(torch.randn(MAXT, D) * 0.02)
        self.block = Block()
        self.lnf = nn.LayerNorm(D)
        self.register_buffer("mask", torch.tril(torch.ones(MAXT, MAXT)))

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        x = self.block(x, self.mask)
        return self.lnf(x) @ self.tok.weight.t()


def context(step):
    return min(MAXT, 32 + 16 * (step // 3))


device = torch_xla.device()
torch.manual_seed(1)
net = LM().to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
corpus = torch.randint(0, V, (20000,))

for step in range(9):
    T = context(step)  # visible context; the rest is padding
    starts = torch.randint(0, corpus.numel() - MAXT - 1, (8,))
    chunk = torch.stack([corpus[s:s + MAXT + 1] for s in starts])
    target = chunk[:, 1:].clone()
    target[:, T:] = -100
    chunk, target = chunk.to(device), target.to(device)
    logits = net(chunk[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, V), target.reshape(-1))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    torch_xla.sync()
