import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD, BOS, EOS = 0, 1, 2


class Attention(nn.Module):
    def __init__(self, d, heads, cross=False):
        super().__init__()
        self.heads = heads
        self.cross = cross
        if cross:
            self.q = nn.Linear(d, d, bias=False)
            self.kv = nn.Linear(d, 2 * d, bias=False)
        else:
            self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, mem=None, mask=None):
        if self.cross:
            q, (k, v) = self.q(x), self.kv(mem).chunk(2, -1)
        else:
            q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = self.split(q), self.split(k), self.split(v)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is not None:
            s = s.masked_fill(~mask, -1e9)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.w1 = nn.Linear(d, hidden, bias=False)
        self.w2 = nn.Linear(hidden, d, bias=False)

    def forward(self, x):
        return self.w2(F.relu(self.w1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d, elementwise_affine=False)
        self.attn = Attention(d, heads)
        self.ffn = FeedForward(d, 2 * d)

    def forward(self, x, mask):
        x = x + self.attn(self.n1(x), mask=mask)
        return x + self.ffn(self.n2(x))


class DecoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d, elementwise_affine=False)
        self.n3 = nn.LayerNorm(d, elementwise_affine=False)
        self.attn = Attention(d, heads)
        self.cross = Attention(d, heads, cross=True)
        self.ffn = FeedForward(d, 2 * d)

    def forward(self, x, mem, causal, mem_mask):
        x = x + self.attn(self.n1(x), mask=causal)
        x = x + self.cross(self.n2(x), mem, mem_mask)
        return x + self.ffn(self.n3(x))


class Translator(nn.Module):
    def __init__(self, src_vocab=40, tgt_vocab=36, d=16, heads=2, max_len=16):
        super().__init__()
        self.d = d
        self.src_embed = nn.Embedding(src_vocab, d, padding_idx=PAD)
        self.tgt_embed = nn.Embedding(tgt_vocab, d, padding_idx=PAD)
        self.encoder = EncoderLayer(d, heads)
        self.decoder = DecoderLayer(d, heads)
        self.generator = nn.Linear(d, tgt_vocab, bias=False)
        pos = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(-math.log(1e4) * torch.arange(0, d, 2) / d)
        pe = torch.zeros(max_len, d)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * freq), torch.cos(pos * freq)
        self.register_buffer("pe", pe)
        self.register_buffer("causal", torch.ones(max_len, max_len).tril().bool())
        self.reset_parameters()

    def reset_parameters(self):
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=self.d ** -0.5)

    def forward(self, src, tgt):
        mem_mask = (src != PAD)[:, None, None, :]
        s, t = src.size(1), tgt.size(1)
        mem = self.src_embed(src) * math.sqrt(self.d) + self.pe[:s]
        mem = self.encoder(mem, mem_mask)
        x = self.tgt_embed(tgt) * math.sqrt(self.d) + self.pe[:t]
        x = self.decoder(x, mem, self.causal[:t, :t], mem_mask)
        return self.generator(x)


def noam(step, d, warmup=400):
    step = max(step, 1)
    return d ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def sentence_batch(gen, bs=8, length=12):
    src = torch.full((bs, length), PAD)
    tgt = torch.full((bs, length + 1), PAD)
    for i in range(bs):
        n = int(torch.randint(5, length, (1,), generator=gen))
        words = torch.randint(3, 36, (n,), generator=gen)
        src[i, :n] = words
        tgt[i, 0] = BOS
        tgt[i, 1:n + 1] = words.flip(0)
        tgt[i, n + 1] = EOS
    return src, tgt


def main(steps=4):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    device = torch_xla.device()
    model = Translator().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: noam(s + 1, model.d))
    torch_xla.sync()
    for step in range(steps):
        src, tgt = (t.to(device) for t in sentence_batch(gen))
        logits = model(src, tgt[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(),
                               ignore_index=PAD, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
