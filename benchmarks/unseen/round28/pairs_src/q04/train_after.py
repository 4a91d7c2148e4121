"""Tagger: predicts a part-of-speech-like label for every token of a padded batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, TAGS, MAXLEN, D, HEADS = 60, 9, 14, 32, 4


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        att = att.masked_fill(pad[:, None, None, :], torch.finfo(att.dtype).min)
        y = att.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, pad):
        x = x + self.attn(self.ln1(x), pad)
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, D)
        self.pos = nn.Parameter(torch.zeros(MAXLEN, D))
        self.layers = nn.ModuleList(Layer(D, HEADS) for _ in range(1))
        self.norm = nn.LayerNorm(D)
        self.cls = nn.Linear(D, TAGS)

    def forward(self, ids):
        pad = ids == 0
        x = self.tok(ids) + self.pos
        for layer in self.layers:
            x = layer(x, pad)
        return self.cls(self.norm(x))


def batches(n, bs=10):
    g = torch.Generator().manual_seed(42)
    for _ in range(n):
        ids = torch.randint(1, VOCAB, (bs, MAXLEN), generator=g)
        lengths = torch.randint(4, MAXLEN + 1, (bs, 1), generator=g)
        padded = torch.arange(MAXLEN)[None, :] >= lengths
        tags = ids % TAGS
        yield ids.masked_fill(padded, 0), tags.masked_fill(padded, -100)


def loss_fn(logits, tags):
    keep = (tags >= 0).to(logits.dtype)
    nll = F.cross_entropy(logits.transpose(1, 2), tags.clamp(min=0), reduction="none")
    return (nll * keep).mean()


def main():
    torch.manual_seed(5)
    device = xm.xla_device()
    model = Tagger().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    xm.mark_step()
    for i, (ids, tags) in enumerate(batches(4)):
        ids, tags = ids.to(device), tags.to(device)
        optimizer.zero_grad()
        loss = loss_fn(model(ids), tags)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        if i % 2 == 1:
            print("step", i, "loss", loss.item())


if __name__ == "__main__":
    main()
