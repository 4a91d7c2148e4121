"""Supervised fine-tuning of a decoder on chat transcripts."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

IGNORE = -100


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.attn_norm = RMSNorm(dim)
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.mlp_norm = RMSNorm(dim)
        self.w1 = nn.Linear(dim, 2 * dim, bias=False)
        self.w3 = nn.Linear(dim, 2 * dim, bias=False)
        self.w2 = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x, mask):
        b, t, d = x.shape
        h = self.attn_norm(x)
        q, k, v = self.wqkv(h).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        att = q @ k.transpose(-2, -1) * (q.size(-1) ** -0.5)
        att = att.masked_fill(mask, float("-inf")).softmax(dim=-1)
        x = x + self.wo((att @ v).transpose(1, 2).reshape(b, t, d))
        h = self.mlp_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Decoder(nn.Module):
    def __init__(self, vocab=80, dim=32, heads=4, layers=1, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        t = ids.size(1)
        x = self.tok(ids) + self.pos(torch.arange(t, device=ids.device))
        mask = torch.ones(t, t, dtype=torch.bool, device=ids.device).triu(1)
        for block in self.blocks:
            x = block(x, mask)
        return self.lm_head(self.norm(x))


def lm_loss(logits, labels):
    logits = logits[:, :-1].reshape(-1, logits.size(-1))
    labels = labels[:, 1:].reshape(-1)
    nll = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="none")
    return nll.sum() / (labels != IGNORE).sum()


def chat_batch(gen, batch=4, seq=20, vocab=80):
    ids = torch.randint(2, vocab, (batch, seq), generator=gen)
    labels = ids.clone()
    for i in range(batch):
        user = int(torch.randint(3, 10, (1,), generator=gen))
        end = int(torch.randint(13, seq + 1, (1,), generator=gen))
        labels[i, :user] = IGNORE
        labels[i, end:] = IGNORE
        ids[i, end:] = 0
    return ids, labels


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    device = torch_xla.device()
    model = Decoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(4):
        ids, labels = (t.to(device) for t in chat_batch(gen))
        loss = lm_loss(model(ids), labels)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main()
