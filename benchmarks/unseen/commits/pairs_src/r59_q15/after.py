"""Extractive question answering: post-norm encoder, span head, AdamW with two groups."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, SEQ, DIM, HEADS = 200, 24, 16, 2


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, bias):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        att = (q @ k.transpose(-1, -2) / (DIM // HEADS) ** 0.5 + bias).softmax(-1)
        return self.out((att @ v).transpose(1, 2).reshape(b, t, DIM))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.attn_norm = nn.LayerNorm(DIM, eps=1e-12)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.ffn_norm = nn.LayerNorm(DIM, eps=1e-12)

    def forward(self, x, bias):
        x = self.attn_norm(x + self.attention(x, bias))
        return self.ffn_norm(x + self.down(F.gelu(self.up(x))))


class SpanModel(nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.word = nn.Embedding(VOCAB, DIM)
        self.position = nn.Embedding(SEQ, DIM)
        self.embed_norm = nn.LayerNorm(DIM, eps=1e-12)
        self.layers = nn.ModuleList([Layer() for _ in range(layers)])
        self.span = nn.Linear(DIM, 2, bias=False)

    def forward(self, ids, mask):
        pos = torch.arange(ids.shape[1], device=ids.device)
        x = self.embed_norm(self.word(ids) + self.position(pos))
        bias = (1.0 - mask[:, None, None, :].float()) * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        start, end = self.span(x).unbind(-1)
        return start, end


def parameter_groups(model, weight_decay):
    skip = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    return [
        {"params": [p for n, p in named if not n.endswith(skip)], "weight_decay": weight_decay},
        {"params": [p for n, p in named if n.endswith(skip)], "weight_decay": 0.0},
    ]


def span_loss(start, end, first, last):
    return (F.cross_entropy(start, first) + F.cross_entropy(end, last)) / 2


def features(n, batch=4):
    g = torch.Generator().manual_seed(2)
    for _ in range(n):
        ids = torch.randint(1, VOCAB, (batch, SEQ), generator=g)
        length = torch.randint(SEQ // 2, SEQ, (batch, 1), generator=g)
        mask = torch.arange(SEQ)[None] < length
        first = torch.randint(8, SEQ // 2 - 2, (batch,), generator=g)
        yield ids * mask, mask, first, first + 2


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = SpanModel().to(device)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.01), lr=5e-5)
    torch_xla.sync()
    for step, batch in enumerate(features(5)):
        ids, mask, first, last = (t.to(device) for t in batch)
        optimizer.zero_grad()
        loss = span_loss(*model(ids, mask), first, last)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
