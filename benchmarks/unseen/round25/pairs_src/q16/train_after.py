"""Small encoder-decoder-free translation toy: prefix LM on reversed strings."""
import math

import torch
import torch.nn as nn
import torch_xla

PAD = 0


class Args:
    vocab = 40
    d_model = 32
    n_head = 4
    n_layer = 1
    max_len = 20
    batch = 4
    steps = 4
    lr = 3e-4
    clip = 1.0


def gelu(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + torch.tanh(inner))


class CausalAttention(nn.Module):
    def __init__(self, d, h, max_len):
        super().__init__()
        self.h = h
        self.wq = nn.Linear(d, d, bias=False)
        self.wk = nn.Linear(d, d, bias=False)
        self.wv = nn.Linear(d, d, bias=False)
        self.wo = nn.Linear(d, d, bias=False)
        self.register_buffer("tri", torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)))

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.h, d // self.h).transpose(1, 2)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        s = q @ k.transpose(-2, -1) / math.sqrt(d // self.h)
        s = s.masked_fill(~self.tri[:t, :t], -1e9)
        o = torch.softmax(s, dim=-1) @ v
        return self.wo(o.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.ln1 = nn.LayerNorm(a.d_model)
        self.attn = CausalAttention(a.d_model, a.n_head, a.max_len)
        self.ln2 = nn.LayerNorm(a.d_model)
        self.fc1 = nn.Linear(a.d_model, 4 * a.d_model)
        self.fc2 = nn.Linear(4 * a.d_model, a.d_model)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.fc2(gelu(self.fc1(self.ln2(x))))


class LM(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tok = nn.Embedding(a.vocab, a.d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(a.max_len, a.d_model))
        self.blocks = nn.ModuleList([Block(a) for _ in range(a.n_layer)])
        self.ln = nn.LayerNorm(a.d_model)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for b in self.blocks:
            x = b(x)
        return self.ln(x) @ self.tok.weight.t()


def batch(a, g):
    half = a.max_len // 2
    rows = []
    for _ in range(a.batch):
        n = int(torch.randint(3, half, (1,), generator=g))
        w = torch.randint(3, a.vocab, (n,), generator=g)
        row = torch.cat([w, torch.tensor([1]), w.flip(0), torch.tensor([2])])
        rows.append(nn.functional.pad(row, (0, a.max_len + 1 - len(row)), value=PAD))
    return torch.stack(rows)


def lm_loss(logits, target):
    logp = torch.log_softmax(logits.float(), dim=-1)
    nll = -logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    keep = (target != PAD).to(nll.dtype)
    return (nll * keep).sum() / keep.sum().clamp(min=1.0)


def main():
    a = Args()
    torch.manual_seed(42)
    g = torch.Generator().manual_seed(9)
    dev = torch_xla.device()
    model = LM(a).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=a.lr, betas=(0.9, 0.95))
    torch_xla.sync()
    for step in range(a.steps):
        ids = batch(a, g).to(dev)
        inp, tgt = ids[:, :-1], ids[:, 1:]
        opt.zero_grad()
        loss = lm_loss(model(inp), tgt)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip)
        opt.step()
        torch_xla.sync()
        print(f"{step} loss {loss.item():.4f} gnorm {norm.item():.3f}")


if __name__ == "__main__":
    main()
