# Tiny character LM with local attention. Usage: python train.py
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

vocab_size = 40
block_size = 20
window = 6
n_embd, n_head, n_layer = 24, 2, 1
batch_size = 4
learning_rate, betas, weight_decay = 3e-3, (0.9, 0.95), 0.1
max_iters = 4


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def local_mask(T, device):
    i = torch.arange(T, device=device)[:, None]
    j = torch.arange(T, device=device)[None, :]
    return (j <= i) & (i - j < window)


class LocalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-2, -1) / math.sqrt(C // n_head)
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.c_proj((att @ v).transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = RMSNorm(n_embd), RMSNorm(n_embd)
        self.attn = LocalSelfAttention()
        self.w_in = nn.Linear(n_embd, 2 * n_embd)
        self.w_out = nn.Linear(2 * n_embd, n_embd)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.w_out(F.gelu(self.w_in(self.ln_2(x)), approximate="tanh"))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Layer() for _ in range(n_layer)])
        self.ln_f = RMSNorm(n_embd)

    def forward(self, idx, targets):
        T = idx.shape[1]
        x = self.wte(idx) + self.wpe(torch.arange(T, device=idx.device))
        mask = local_mask(T, idx.device)
        for layer in self.h:
            x = layer(x, mask)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.view(-1, vocab_size), targets.reshape(-1))


def configure_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=betas, weight_decay=weight_decay)


def get_batch(data, gen, device):
    ix = torch.randint(len(data) - block_size - 1, (batch_size,), generator=gen).tolist()
    x = torch.stack([data[i:i + block_size] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + block_size] for i in ix])
    return x.to(device), y.to(device)


torch.manual_seed(1337)
device = torch_xla.device()
gen = torch.Generator().manual_seed(99)
data = (torch.arange(2000) * 7 + torch.randint(3, (2000,), generator=gen)) % vocab_size

model = LM().to(device)
optimizer = configure_optimizer(model)
torch_xla.sync()
for it in range(max_iters):
    xb, yb = get_batch(data, gen, device)
    loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    torch_xla.sync()
    print(f"iter {it}: loss {loss.item():.4f}")
