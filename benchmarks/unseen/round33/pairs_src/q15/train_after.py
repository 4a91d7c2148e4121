"""Distogram head on a one-block pair stack (toy Evoformer)."""
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla

C_S, C_Z, HEADS, BINS = 12, 8, 2, 10


class TriangleMultiplication(nn.Module):
    def __init__(self, c, outgoing):
        super().__init__()
        self.outgoing = outgoing
        self.norm_in = nn.LayerNorm(c)
        self.proj = nn.Linear(c, 2 * c)
        self.gate = nn.Linear(c, 2 * c)
        self.norm_mix = nn.LayerNorm(c)
        self.out_proj = nn.Linear(c, c)
        self.out_gate = nn.Linear(c, c)

    def forward(self, z, pair_mask):
        z = self.norm_in(z)
        ab = self.proj(z) * self.gate(z).sigmoid() * pair_mask[..., None]
        ab = ab.permute(0, 3, 1, 2)
        if not self.outgoing:
            ab = ab.transpose(-1, -2)
        a, b = ab.chunk(2, dim=1)
        x = torch.matmul(a, b.transpose(-1, -2)).permute(0, 2, 3, 1)
        return self.out_proj(self.norm_mix(x)) * self.out_gate(z).sigmoid()


class PairBiasAttention(nn.Module):
    def __init__(self, c_s, c_z, heads):
        super().__init__()
        self.h, self.d = heads, c_s // heads
        self.norm = nn.LayerNorm(c_s)
        self.qkv = nn.Linear(c_s, 3 * c_s, bias=False)
        self.bias = nn.Linear(c_z, heads, bias=False)
        self.out = nn.Linear(c_s, c_s)

    def forward(self, s, z, mask):
        b, n, _ = s.shape
        qkv = self.qkv(self.norm(s)).view(b, n, 3, self.h, self.d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        att = (q * self.d ** -0.5) @ k.mT
        att = att + self.bias(z).permute(0, 3, 1, 2)
        att = att + (mask[:, None, None, :] - 1) * 1e9
        y = torch.softmax(att, dim=-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))


class PairStack(nn.Module):
    def __init__(self, vocab=21, max_rel=8):
        super().__init__()
        self.max_rel = max_rel
        self.aa = nn.Embedding(vocab, C_S)
        self.left = nn.Linear(C_S, C_Z)
        self.right = nn.Linear(C_S, C_Z)
        self.rel = nn.Embedding(2 * max_rel + 1, C_Z)
        self.attn = PairBiasAttention(C_S, C_Z, HEADS)
        self.outgoing = TriangleMultiplication(C_Z, True)
        self.incoming = TriangleMultiplication(C_Z, False)
        self.disto = nn.Linear(C_Z, BINS)

    def forward(self, seq, mask):
        pair_mask = mask[:, :, None] * mask[:, None, :]
        pos = torch.arange(seq.shape[1], device=seq.device)
        rel = (pos[:, None] - pos[None, :]).clamp(-self.max_rel, self.max_rel) + self.max_rel
        s = self.aa(seq)
        z = self.rel(rel).expand(seq.shape[0], -1, -1, -1)
        s = s + self.attn(s, z, mask)
        z = z + self.left(s)[:, :, None] + self.right(s)[:, None, :]
        z = z + self.outgoing(z, pair_mask)
        z = z + self.incoming(z, pair_mask)
        logits = self.disto(z)
        return logits + logits.transpose(1, 2), pair_mask


def disto_loss(logits, bins, pair_mask):
    nll = F.cross_entropy(logits.permute(0, 3, 1, 2), bins, reduction="none")
    return (nll * pair_mask).sum() / pair_mask.sum().clamp(min=1)


def proteins(steps, batch=2, length=10):
    g = torch.Generator().manual_seed(5)
    for _ in range(steps):
        seq = torch.randint(0, 21, (batch, length), generator=g)
        n = torch.randint(length // 2, length + 1, (batch, 1), generator=g)
        mask = (torch.arange(length)[None] < n).float()
        bins = torch.randint(0, BINS, (batch, length, length), generator=g)
        yield seq, mask, bins


def run(steps=4, model=None):
    torch.manual_seed(2)
    device = torch_xla.device()
    model = (model or PairStack()).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for batch in proteins(steps):
        seq, mask, bins = (t.to(device) for t in batch)
        logits, pair_mask = model(seq, mask)
        loss = disto_loss(logits, bins, pair_mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        losses.append(loss.item())
    return model, losses


if __name__ == "__main__":
    print(run()[1])
