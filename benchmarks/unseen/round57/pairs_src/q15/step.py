import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD, BOS, EOS = 0, 1, 2


class StaticCache:
    def __init__(self, n_layers, batch, n_heads, max_len, d_head, device):
        shape = (batch, n_heads, max_len, d_head)
        self.k = [torch.zeros(shape, device=device) for _ in range(n_layers)]
        self.v = [torch.zeros(shape, device=device) for _ in range(n_layers)]

    def update(self, layer, k, v, pos):
        self.k[layer][:, :, pos] = k.squeeze(2)
        self.v[layer][:, :, pos] = v.squeeze(2)
        return self.k[layer], self.v[layer]

    def reorder(self, idx):
        self.k = [t.index_select(0, idx) for t in self.k]
        self.v = [t.index_select(0, idx) for t in self.v]


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.h, d // self.h).transpose(1, 2)

    def attend(self, q, k, v, mask):
        w = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        w = w.masked_fill(~mask, -1e9).softmax(-1)
        b, h, t, e = q.shape
        return self.o((w @ v).transpose(1, 2).reshape(b, t, h * e))


class DecoderLayer(nn.Module):
    def __init__(self, d, h, idx):
        super().__init__()
        self.idx = idx
        self.self_attn = Attention(d, h)
        self.cross_attn = Attention(d, h)
        self.ln1, self.ln2, self.ln3 = (nn.LayerNorm(d) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mem_kv, mem_mask, cache, step, self_mask):
        h = self.ln1(x)
        a = self.self_attn
        k, v = cache.update(self.idx, a.split(a.k(h)), a.split(a.v(h)), step)
        x = x + a.attend(a.split(a.q(h)), k, v, self_mask)
        c = self.cross_attn
        x = x + c.attend(c.split(c.q(self.ln2(x))), *mem_kv, mem_mask)
        return x + self.fc2(F.gelu(self.fc1(self.ln3(x))))


class Translator(nn.Module):
    def __init__(self, vocab=60, d=16, h=2, n_layers=2, max_len=24):
        super().__init__()
        self.max_len, self.h, self.d = max_len, h, d
        self.src_emb = nn.Embedding(vocab, d)
        self.tgt_emb = nn.Embedding(vocab, d)
        self.pos_emb = nn.Embedding(max_len, d)
        self.enc = nn.Linear(d, d)
        self.layers = nn.ModuleList([DecoderLayer(d, h, i) for i in range(n_layers)])
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, vocab)

    def encode(self, src):
        m = torch.tanh(self.enc(self.src_emb(src)))
        kv = []
        for layer in self.layers:
            c = layer.cross_attn
            kv.append((c.split(c.k(m)), c.split(c.v(m))))
        return kv, (src != PAD)[:, None, None, :]

    def decode_one(self, tok, pos, mem, mem_mask, cache, step):
        x = self.tgt_emb(tok)[:, None] + self.pos_emb(pos)[:, None]
        ids = torch.arange(self.max_len, device=tok.device)
        self_mask = (ids[None] <= pos[:, None])[:, None, None, :]
        for layer, kv in zip(self.layers, mem):
            x = layer(x, kv, mem_mask, cache, step, self_mask)
        return self.out(self.norm(x[:, 0])).log_softmax(-1)


@torch.no_grad()
def beam_search(model, src, beam=3, alpha=0.6):
    device, b = src.device, src.size(0)
    src = src.repeat_interleave(beam, 0)
    mem, mem_mask = model.encode(src)
    cache = StaticCache(len(model.layers), b * beam, model.h, model.max_len, model.d // model.h, device)
    tok = torch.full((b * beam,), BOS, device=device)
    pos = torch.zeros(b * beam, dtype=torch.long, device=device)
    out = torch.zeros(b * beam, model.max_len, dtype=torch.long, device=device)
    scores = torch.full((b, beam), -1e9, device=device)
    scores[:, 0] = 0.0
    done = torch.zeros(b * beam, dtype=torch.bool, device=device)
    base = torch.arange(b, device=device)[:, None] * beam
    torch_xla.sync()
    for step in range(model.max_len):
        logp = model.decode_one(tok, pos, mem, mem_mask, cache, step)
        frozen = torch.full_like(logp, -1e9)
        frozen[:, PAD] = 0.0
        logp = torch.where(done[:, None], frozen, logp)
        total = scores[:, :, None] + logp.view(b, beam, -1)
        scores, flat = total.view(b, -1).topk(beam, -1)
        vocab = logp.size(-1)
        src_beam = (base + torch.div(flat, vocab, rounding_mode="floor")).view(-1)
        tok = (flat % vocab).view(-1)
        out = out.index_select(0, src_beam).scatter(1, pos[:, None], tok[:, None])
        done = done.index_select(0, src_beam) | (tok == EOS)
        cache.reorder(src_beam)
        pos = pos + 1
        torch_xla.sync()
        if step % 8 == 7 and bool(done.all()):
            break
    length = (out != PAD).sum(-1).view(b, beam).float()
    best = (scores / ((5 + length) / 6) ** alpha).argmax(-1)
    return out.view(b, beam, -1)[torch.arange(b, device=device), best]


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Translator().to(device).eval()
    src = torch.randint(3, 60, (4, 10))
    src[1, 7:] = PAD
    print(beam_search(model, src.to(device)).cpu().tolist()[0][:8])


if __name__ == "__main__":
    main()
