# kind: torch  mode: text  env: XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(2)
dev = torch_xla.device()
D, H, N = 48, 4, 16


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, H, D // H).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-2, -1)) * (D // H) ** -0.5
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, D)) #A
        return self.out((s.softmax(-2) @ v).transpose(1, 2).reshape(b, n, D)) #B


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), Attn()
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, D, 4, 4)
        self.pos = nn.Parameter(torch.zeros(1, N, D))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(D, 10)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


model = ViT().to(dev).eval()
img = torch.randn(4, 3, 16, 16).to(dev)
lab = torch.randint(0, 10, (4,)).to(dev)
torch_xla.sync()
with torch.no_grad():
    logits = model(img)
    loss = F.cross_entropy(logits, lab)
    correct = (logits.argmax(-1) == lab).sum()
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo([loss, correct]))
