"""Character language model, GPT style, with a functional training loop."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TEXT = ("the quick brown fox jumps over the lazy dog while the slow green turtle "
        "walks under the busy bridge and nobody ever asks the river what it thinks ") * 4
CHARS = sorted(set(TEXT))
STOI = {c: i for i, c in enumerate(CHARS)}
BLOCK, BATCH = 16, 8


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.key = nn.Linear(dim, dim)
        self.query = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("mask", torch.tril(torch.ones(BLOCK, BLOCK))[None, None])

    def forward(self, x):
        b, t, c = x.size()
        split = lambda z: z.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        att = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        att = att.masked_fill(self.mask == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


class CharGPT(nn.Module):
    def __init__(self, dim=32, heads=2, depth=2):
        super().__init__()
        self.tok = nn.Embedding(len(CHARS), dim)
        self.pos = nn.Parameter(torch.zeros(1, BLOCK, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(CHARS), bias=False)

    def forward(self, idx, targets):
        x = self.blocks(self.tok(idx) + self.pos)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def get_batch(data):
    ix = torch.randint(len(data) - BLOCK - 1, (BATCH,))
    x = torch.stack([data[i:i + BLOCK] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + BLOCK] for i in ix])
    return x, y


def configure(model, lr, wd):
    decay = [p for n, p in model.named_parameters() if p.dim() >= 2]
    rest = [p for n, p in model.named_parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def train(steps=12):
    torch.manual_seed(1337)
    device = torch_xla.device()
    data = torch.tensor([STOI[c] for c in TEXT])
    model = CharGPT().to(device)
    opt = configure(model, 1e-3, 0.1)
    for step in range(steps):
        x, y = get_batch(data)
        loss = model(x.to(device), y.to(device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 3 == 0:
            print(f"{step:4d} | loss {loss.item():.4f}")


if __name__ == "__main__":
    train()
