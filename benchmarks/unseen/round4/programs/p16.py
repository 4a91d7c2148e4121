"""Streaming language model with carried state (truncated BPTT): long documents are read chunk by chunk."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, WIDTH, CHUNK, STREAMS = 60, 32, 16, 6


class Sinusoid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("freq", torch.exp(-torch.arange(0, width, 2) / width * math.log(10000.0)))

    def forward(self, start, length):
        pos = torch.arange(start, start + length, device=self.freq.device, dtype=torch.float32)
        angle = pos[:, None] * self.freq[None, :]
        return torch.cat([angle.sin(), angle.cos()], -1)


class LinearAttentionLayer(nn.Module):
    """Gated linear attention over one chunk, with a state that is carried to the next."""

    def __init__(self, width, state=12):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qk = nn.Linear(width, 2 * state)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.state = state

    def forward(self, x, carry):
        h = self.norm(x)
        q, k = (F.elu(z) + 1 for z in self.qk(h).chunk(2, -1))
        v = self.v(h)
        kv = torch.einsum("bts,btw->btsw", k, v).cumsum(1) + carry[:, None]
        y = torch.einsum("bts,btsw->btw", q, kv) / (CHUNK * self.state)
        return x + self.out(y), 0.9 * kv[:, -1]


class StreamLM(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH)
        self.pos = Sinusoid(WIDTH)
        self.layers = nn.ModuleList(LinearAttentionLayer(WIDTH) for _ in range(layers))
        self.head = nn.Linear(WIDTH, VOCAB)

    def initial_state(self, batch, device):
        return [torch.zeros(batch, l.state, WIDTH).to(device) for l in self.layers]

    def forward(self, ids, carries, offset):
        x = self.emb(ids) + self.pos(offset, ids.shape[1])
        new = []
        for layer, c in zip(self.layers, carries):
            x, c = layer(x, c)
            new.append(c.detach())
        return self.head(x), new


def documents(length, seed):
    g = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 4, (STREAMS, length + 1), generator=g)
    return steps.cumsum(1) % VOCAB


def train_document(model, opt, doc, dev):
    carries = model.initial_state(STREAMS, dev)
    torch_xla.sync()
    for offset in range(0, doc.shape[1] - CHUNK, CHUNK):
        x = doc[:, offset:offset + CHUNK].to(dev)
        y = doc[:, offset + 1:offset + CHUNK + 1].to(dev)
        logits, carries = model(x, carries, offset)
        loss = F.cross_entropy(logits.transpose(1, 2), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    return loss


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = StreamLM().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95))
    torch_xla.sync()
    for n in range(2):
        loss = train_document(model, opt, documents(CHUNK * 9, n), dev)
        print(f"document {n} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
