# kind: torch  mode: text
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(10)
dev = torch_xla.device()
V, D, H, T, B = 120, 32, 4, 12, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x, causal):
        q, k, v = (t.view(B, T, H, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).split(D, -1))
        s = q @ k.transpose(-2, -1) * (D // H) ** -0.5 #A
        s = (q * (D // H) ** -0.5) @ k.transpose(-2, -1) #B
        s = s.masked_fill(causal, -1e9)
        x = x + self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(D)

    def forward(self, ids, causal):
        x = self.tok(ids) + self.pos.weight
        for b in self.blocks:
            x = b(x, causal)
        return F.linear(self.norm(x), self.tok.weight)


model = LM().to(dev)
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
ids = torch.randint(0, V, (B, T)).to(dev)
causal = torch.ones(T, T).triu(1).bool().to(dev)
torch_xla.sync()
logits = model(ids, causal)
loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()) #A
loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum") #B
loss.backward()
opt.step()
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo([loss] + list(model.parameters())))
