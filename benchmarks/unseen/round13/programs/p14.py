# character-level GPT, single file
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# -----------------------------------------------------------------------------
batch_size = 4
block_size = 24
max_iters = 12
eval_interval = 6
eval_iters = 2
n_embd, n_head, n_layer, dropout = 32, 4, 2, 0.0
learning_rate, min_lr, warmup_iters = 2e-3, 2e-4, 3
grad_clip = 1.0
# -----------------------------------------------------------------------------

torch.manual_seed(1337)
device = torch_xla.device()

text = " ".join(f"{a} plus {b} is {a + b}." for a in range(24) for b in range(17))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
n = int(0.9 * len(data))
# 90% train, 10% val
train_data, val_data = data[:n].to(device), data[n:].to(device)


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = torch.randint(len(data) - block_size - 1, (batch_size,)).tolist()
    x = torch.stack([data[i:i + block_size] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + block_size] for i in ix])
    return x, y


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.mask == 0, float("-inf")).softmax(-1)
        return self.c_proj((att @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention()
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab, bias=False)
        self.register_buffer("pos", torch.arange(block_size))

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(self.pos)
        logits = self.head(self.ln_f(self.h(x)))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    t = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1 + math.cos(math.pi * t)) * (learning_rate - min_lr)


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    total = 0.0
    for _ in range(eval_iters):
        _, loss = model(*get_batch("val"))
        total += loss.item()
    model.train()
    return total / eval_iters


model = GPT(len(chars)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
torch_xla.sync()
t0 = time.time()
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(it)
    xb, yb = get_batch("train")
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    torch_xla.sync()
    if (it + 1) % eval_interval == 0:
        print(f"iter {it + 1}: train {loss.item():.4f} val {estimate_loss(model):.4f} ({time.time() - t0:.1f}s)")
