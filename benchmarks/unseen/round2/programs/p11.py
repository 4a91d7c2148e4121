import random
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP

BUDGET = 32


def pack(rng):
    """Fill a row of BUDGET tokens with documents of random length."""
    lengths = []
    while sum(lengths) < BUDGET:
        lengths.append(min(rng.randint(5, 14), BUDGET - sum(lengths)))
    return torch.randint(0, 64, (BUDGET,)), lengths


class SelfAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, lengths):
        q, k, v = self.qkv(x).chunk(3, -1)
        outs = [
            F.scaled_dot_product_attention(a[None], b[None], c[None], is_causal=True)[0]
            for a, b, c in zip(q.split(lengths), k.split(lengths), v.split(lengths))
        ]
        return self.out(torch.cat(outs))


class Model(nn.Module):
    def __init__(self, d=16, device=None):
        super().__init__()
        self.emb = nn.Embedding(64, d)
        self.attn = FSDP(SelfAttention(d).to(device))
        self.head = FSDP(nn.Linear(d, 64).to(device))

    def forward(self, ids, lengths):
        x = self.emb(ids)
        return self.head(x + self.attn(x, lengths))


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    device = xm.xla_device()
    model = Model(device=device).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        ids, lengths = pack(rng)
        ids = ids.to(device)
        loss = F.cross_entropy(model(ids, lengths)[:-1], ids[1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, len(lengths), loss.item())


main()
