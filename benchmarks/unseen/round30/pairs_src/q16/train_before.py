"""Character LM, GPT style."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TEXT = ("the quick brown fox jumps over the lazy dog and then the dog, "
        "being lazy, does nothing at all about it. ") * 6


@dataclasses.dataclass
class GPTConfig:
    vocab: int = 32
    ctx: int = 24
    n_layer: int = 1
    n_head: int = 2
    d_model: int = 32
    batch: int = 6
    lr: float = 3e-3
    steps: int = 3


class CausalSelfAttention(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.n_head = cfg.n_head
        self.c_attn = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.c_proj = nn.Linear(cfg.d_model, cfg.d_model)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (C // self.n_head)**-0.5
        visible = torch.ones(T, T, dtype=torch.bool, device=x.device).tril(diagonal=1)
        att = att.masked_fill(~visible, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.ln_1 = nn.LayerNorm(cfg.d_model)
        self.attn = CausalSelfAttention(cfg)
        self.ln_2 = nn.LayerNorm(cfg.d_model)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.d_model, 4 * cfg.d_model), nn.GELU(), nn.Linear(4 * cfg.d_model, cfg.d_model))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.wte = nn.Embedding(cfg.vocab, cfg.d_model)
        self.wpe = nn.Embedding(cfg.ctx, cfg.d_model)
        self.h = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        self.ln_f = nn.LayerNorm(cfg.d_model)
        self.lm_head = nn.Linear(cfg.d_model, cfg.vocab, bias=False)

    def forward(self, idx, targets):
        pos = torch.arange(idx.shape[1], device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


def encode(text, vocab):
    stoi = {c: i for i, c in enumerate(sorted(set(text)))}
    assert len(stoi) <= vocab
    return torch.tensor([stoi[c] for c in text])


def get_batch(ids, cfg, gen):
    starts = torch.randint(0, len(ids) - cfg.ctx - 1, (cfg.batch,), generator=gen)
    chunk = torch.stack([ids[s:s + cfg.ctx + 1] for s in starts.tolist()])
    return chunk[:, :-1], chunk[:, 1:]


def main():
    cfg = GPTConfig()
    torch.manual_seed(1337)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(0)
    ids = encode(TEXT, cfg.vocab)
    model = GPT(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95))
    torch_xla.sync()
    for step in range(cfg.steps):
        xb, yb = (t.to(device) for t in get_batch(ids, cfg, gen))
        optimizer.zero_grad()
        loss = model(xb, yb)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
