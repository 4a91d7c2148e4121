import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_VOCAB, N_CTX, N_EMBD, N_HEAD = 40, 10, 16, 2


class Attention(nn.Module):
    """Multi head causal attention with a packed projection."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, allowed):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head_dim).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * self.head_dim ** -0.5
        scores = scores.masked_fill(~allowed, float("-inf"))
        w = scores.softmax(dim=-1)
        y = torch.einsum("bhij,bjhd->bihd", w, v).reshape(b, t, d)
        return self.proj(y)


class TransformerLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = Attention(dim, heads)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.norm_attn = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def forward(self, x, allowed):
        x = self.attn(self.norm_attn(x), allowed) + x
        h = self.up(self.norm_mlp(x))
        return self.down(h * torch.sigmoid(h)) + x


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(N_VOCAB, N_EMBD)
        self.pos = nn.Parameter(torch.randn(N_CTX, N_EMBD) * 0.02)
        self.layer = TransformerLayer(N_EMBD, N_HEAD)
        self.norm = nn.LayerNorm(N_EMBD)
        mask = torch.ones(N_CTX, N_CTX, dtype=torch.float32).tril()
        self.register_buffer("mask", mask.view(1, 1, N_CTX, N_CTX))

    def forward(self, tokens):
        allowed = self.mask != 0
        h = self.pos + self.tok(tokens)
        h = self.norm(self.layer(h, allowed))
        return F.linear(h, self.tok.weight)


def masked_nll(logits, labels):
    logp = F.log_softmax(logits, dim=-1).flatten(0, 1)
    return F.nll_loss(logp, labels.flatten(), ignore_index=-1)


class SyntheticData:
    def __init__(self, seed, batch):
        self.g = torch.Generator().manual_seed(seed)
        self.batch = batch

    def sample(self, device):
        start = torch.randint(0, N_VOCAB, (self.batch, 1), generator=self.g)
        stride = torch.randint(1, 5, (self.batch, 1), generator=self.g)
        seq = (start + stride * torch.arange(N_CTX + 1)) % N_VOCAB
        x, y = seq[:, :-1].contiguous(), seq[:, 1:].contiguous()
        drop = torch.rand(y.shape, generator=self.g) < 0.1
        y = torch.where(drop, torch.full_like(y, -1), y)
        return x.to(device), y.to(device)


def run(iters=5):
    torch.manual_seed(1337)
    device = torch_xla.device()
    model = Decoder().to(device)
    data = SyntheticData(9, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    for it in range(iters):
        tokens, labels = data.sample(device)
        logits = model(tokens)
        accuracy = (labels == logits.argmax(-1)).float().mean()
        loss = masked_nll(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"iter {it}: loss {loss.item():.6f}, acc {accuracy.item():.4f}")


if __name__ == "__main__":
    run()
