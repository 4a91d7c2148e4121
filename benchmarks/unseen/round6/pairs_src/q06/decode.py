# kind: torch  mode: dump  pattern: SyncTensors  env: XLA_HLO_DEBUG=1,XLA_IR_DEBUG=1
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(5)
dev = torch_xla.device()
V, D, H, L = 97, 32, 4, 24


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.kv, self.o = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.f1, self.f2 = nn.Linear(D, 64), nn.Linear(64, D)

    def forward(self, x, cache, pos):
        h = self.n1(x)
        b = h.shape[0]
        q = self.q(h).view(b, H, 1, D // H)
        kv = self.kv(h).view(b, 2, H, D // H)
        cache[:, :, :, pos] = kv
        k, v = cache[:, 0], cache[:, 1]
        s = (q * k).sum(-1, keepdim=True).transpose(2, 3) / (D // H) ** 0.5
        s = s.masked_fill(mask(pos), float("-inf"))
        x = x + self.o((s.softmax(-1) @ v).reshape(b, D))
        return x + self.f2(F.relu(self.f1(self.n2(x))))


positions = torch.arange(L).to(dev)


def mask(pos):
    return positions > now


emb = nn.Embedding(V, D).to(dev)
layers = nn.ModuleList(Layer() for _ in range(2)).to(dev)
caches = [torch.zeros(2, 2, H, L, D // H).to(dev) for _ in layers]
tok = torch.tensor([3, 5]).to(dev)
now = torch.tensor(0).to(dev)
torch_xla.sync()
with torch.no_grad():
    for pos in range(7): #A
    for pos in range(12): #B
        x = emb(tok)
        for layer, cache in zip(layers, caches):
            x = layer(x, cache, pos)
        tok = (x @ emb.weight.t()).argmax(-1)
        now += 1
        del x
        torch_xla.sync()
