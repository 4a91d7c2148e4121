"""Fine-tune a small protein language encoder for thermostability regression."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

AA = "ACDEFGHIKLMNPQRSTVWY"
PAD = len(AA)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, bias):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5 + bias
        x = x + self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, d=16, depth=2, heads=2):
        super().__init__()
        self.emb = nn.Embedding(PAD + 1, d, padding_idx=PAD)
        self.layers = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d)

    def forward(self, tok):
        keep = tok != PAD
        bias = torch.zeros(tok.shape, device=tok.device).masked_fill(~keep, -1e9)[:, None, None]
        h = self.emb(tok)
        for layer in self.layers:
            h = layer(h, bias)
        keep = keep.unsqueeze(-1).float()
        return (self.norm(h) * keep).sum(1) / keep.sum(1)


class Stability(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, tok):
        return self.head(self.encoder(tok)).squeeze(-1)


class GradualThaw:
    """Start with the head only, then release encoder blocks from the top."""

    def __init__(self, model, every):
        self.model, self.every = model, every
        self.queue = list(reversed(model.encoder.layers))
        model.encoder.requires_grad_(False)

    def on_step(self, step):
        if step and step % self.every == 0 and self.queue:
            self.queue.pop(0).requires_grad_(True)


def proteins(n, length=14, seed=0):
    g = torch.Generator().manual_seed(seed)
    tok = torch.randint(0, PAD, (n, length), generator=g)
    size = torch.randint(length // 2, length + 1, (n,), generator=g)
    tok[torch.arange(length)[None] >= size[:, None]] = PAD
    tm = 50 + (tok < 5).float().sum(1) * 2 + torch.randn(n, generator=g)
    return tok, (tm - 55) / 5


def main(steps=30, batch=8):
    torch.manual_seed(6)
    device = torch_xla.device()
    model = Stability().to(device)
    thaw = GradualThaw(model, every=10)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    huber = nn.SmoothL1Loss()
    for step in range(steps):
        thaw.on_step(step)
        tok, tm = proteins(batch, seed=step)
        loss = huber(model(tok.to(device)), tm.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 10 == 9:
            trainable = sum(p.requires_grad for p in model.parameters())
            print(step, f"{loss.item():.3f}", "trainable tensors", trainable)


if __name__ == "__main__":
    main()
