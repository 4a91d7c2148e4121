# char-level LM with local attention
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TEXT = ("the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 6)


class Config:
    d_model = 16
    n_head = 2
    n_layer = 2
    block = 12
    window = 4
    batch = 4
    lr = 0.1
    momentum = 0.9
    weight_decay = 1e-3
    steps = 3


def local_mask(n, window, device):
    pos = torch.arange(n, device=device)
    dist = pos[:, None] - pos[None, :]
    return (dist >= 0) & (dist <= window)


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class LocalAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.n_head
        self.window = cfg.window
        self.qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model, bias=False)
        self.proj = nn.Linear(cfg.d_model, cfg.d_model, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in self.qkv(x).split(C, dim=-1))
        w = q @ k.transpose(-1, -2) / math.sqrt(C // self.h)
        w = w.masked_fill(~local_mask(T, self.window, x.device), float("-inf"))
        y = F.softmax(w, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = RMSNorm(cfg.d_model), RMSNorm(cfg.d_model)
        self.att = LocalAttention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.d_model, 2 * cfg.d_model), nn.GELU(), nn.Linear(2 * cfg.d_model, cfg.d_model))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, cfg):
        super().__init__()
        self.tok = nn.Embedding(vocab, cfg.d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(cfg.block, cfg.d_model))
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.n_layer))
        self.norm = RMSNorm(cfg.d_model)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos[: idx.size(1)]
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.tok.weight.t()
        return F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))


def main():
    cfg = Config()
    chars = sorted(set(TEXT))
    ids = torch.tensor([chars.index(c) for c in TEXT])
    torch.manual_seed(1337)
    device = torch_xla.device()
    model = CharLM(len(chars), cfg).to(device)
    opt = torch.optim.SGD(
        model.parameters(),
        lr=cfg.lr,
        momentum=cfg.momentum,
        weight_decay=cfg.weight_decay,
        nesterov=True,
    )
    gen = torch.Generator().manual_seed(0)
    for step in range(cfg.steps):
        ix = torch.randint(0, len(ids) - cfg.block - 1, (cfg.batch,), generator=gen).tolist()
        xb = torch.stack([ids[i : i + cfg.block] for i in ix]).to(device)
        yb = torch.stack([ids[i + 1 : i + cfg.block + 1] for i in ix]).to(device)
        with torch_xla.step():
            opt.zero_grad(set_to_none=True)
            loss = model(xb, yb)
            loss.backward()
            opt.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
