"""Joint intent + slot tagging on synthetic utterances."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, HEADS, SLOTS, INTENTS = 60, 24, 3, 7, 4
T, B = 10, 5


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        var = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(var + self.eps))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM)
        self.k = nn.Linear(DIM, DIM)
        self.v = nn.Linear(DIM, DIM)
        self.o = nn.Linear(DIM, DIM)

    def forward(self, x, mask):
        b, t, d = x.shape
        dh = d // HEADS
        q = self.q(x).view(b, t, HEADS, dh)
        k = self.k(x).view(b, t, HEADS, dh)
        v = self.v(x).view(b, t, HEADS, dh)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) * dh ** -0.5
        s = s.masked_fill(~mask[:, None, None, :], -1e4)
        y = torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v)
        return self.o(y.reshape(b, t, d))


class JointTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.norm1 = RMSNorm(DIM)
        self.attn = Attention()
        self.norm2 = RMSNorm(DIM)
        self.gate = nn.Linear(DIM, 2 * DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.slot_head = nn.Linear(DIM, SLOTS)
        self.intent_head = nn.Linear(DIM, INTENTS)

    def forward(self, ids, mask):
        x = self.emb(ids)
        x = x + self.attn(self.norm1(x), mask)
        h = self.norm2(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        m = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * m).sum(1) / m.sum(1)
        return self.slot_head(x), self.intent_head(pooled)


def train_step(model, opt, ids, mask, slots, intent):
    opt.zero_grad()
    slot_logits, intent_logits = model(ids, mask)
    tok = F.cross_entropy(slot_logits.reshape(-1, SLOTS), slots.reshape(-1), reduction="none")
    w = mask.reshape(-1).to(tok.dtype)
    slot_loss = (tok * w).sum() / w.sum()
    intent_loss = F.cross_entropy(intent_logits, intent)
    loss = slot_loss + 0.5 * intent_loss
    loss.backward()
    opt.step()
    return loss.detach()


def make_batch(g):
    ids = torch.randint(1, VOCAB, (B, T), generator=g)
    lens = torch.randint(4, T + 1, (B,), generator=g)
    mask = torch.arange(T)[None] < lens[:, None]
    return ids, mask, ids % SLOTS, ids[:, 0] % INTENTS


def main(steps=4):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = JointTagger().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    xm.mark_step()
    g = torch.Generator().manual_seed(1)
    for i in range(steps):
        loss = train_step(model, opt, *[t.to(dev) for t in make_batch(g)])
        xm.mark_step()
        print(i, loss.item())


if __name__ == "__main__":
    main()
