import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the slow brown bear " * 8


class CausalAttention(nn.Module):
    def __init__(self, d, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)

    def mask(self, n, device):
        m = torch.ones(n, n, device=device).tril().triu(-self.window)
        return m == 0

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        s = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        s = s.masked_fill(self.mask(n, x.device), float("-inf"))
        y = s.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, d, heads, window):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = CausalAttention(d, heads, window)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.ff(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, d=16, heads=2, depth=2, ctx=10, window=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.layers = nn.ModuleList([Layer(d, heads, window) for _ in range(depth)])
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x))


def get_batch(data, ctx, bs, device):
    i = torch.randint(len(data) - ctx - 1, (bs,))
    x = torch.stack([data[j:j + ctx] for j in i])
    y = torch.stack([data[j + 1:j + ctx + 1] for j in i])
    return x.to(device), y.to(device)


if __name__ == "__main__":
    torch.manual_seed(1337)
    chars = sorted(set(TEXT))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in TEXT])
    device = xm.xla_device()
    model = CharLM(len(chars)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for it in range(12):
        x, y = get_batch(data, 10, 8, device)
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()
        if it % 5 == 0:
            print(f"iter {it}: {loss.item():.3f}")
