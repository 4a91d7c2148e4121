import os, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla
B, H, D, L, V = 4, 4, 16, 2, 211
MAXLEN = 64
pos = int(os.environ["VARIANT"]) + 22


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(H * D), nn.LayerNorm(H * D)
        self.qkv, self.o = nn.Linear(H * D, 3 * H * D), nn.Linear(H * D, H * D)
        self.up, self.gate, self.down = nn.Linear(64, 160), nn.Linear(64, 160), nn.Linear(160, 64)

    def forward(self, x, kc, vc, pos):
        q, k, v = self.qkv(self.n1(x)).view(B, 1, 3, H, D).unbind(2)
        kc[:, pos:pos + 1] = k
        vc[:, pos:pos + 1] = v
        ks, vs = kc[:, :pos + 1], vc[:, :pos + 1]
        att = torch.einsum("bqhd,bkhd->bhqk", q, ks) / D ** 0.5
        y = torch.einsum("bhqk,bkhd->bqhd", att.softmax(-1), vs).reshape(B, 1, H * D)
        x = x + self.o(y)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.blocks = nn.Embedding(V, 64), nn.ModuleList(Block() for _ in range(L))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, V, bias=False)

    def forward(self, ids, caches, pos):
        x = self.emb(ids)
        for b, (kc, vc) in zip(self.blocks, caches):
            x = b(x, kc, vc, pos)
        return self.head(self.norm(x))


torch.manual_seed(0)
dev = torch_xla.device()
m = LM().to(dev).eval()
caches = [(torch.zeros(B, MAXLEN, H, D).to(dev), torch.zeros(B, MAXLEN, H, D).to(dev)) for _ in range(L)]
ids = torch.randint(0, V, (B, 1)).to(dev)
torch_xla.sync()
with torch.no_grad():
    logits = m(ids, caches, pos)
    probs = (logits[:, -1] / 0.8).softmax(-1)
    nxt = probs.argmax(-1, keepdim=True)
outs = [nxt] + [t for c in caches for t in c]
open(os.environ["OUT"], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
