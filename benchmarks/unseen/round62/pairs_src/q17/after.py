"""Masked-residue pretraining of a small protein encoder."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

AA = "ACDEFGHIKLMNPQRSTVWY"
PAD, MASK, OFFSET = 0, 1, 2
VOCAB = len(AA) + OFFSET
CFG = dict(dim=32, heads=4, layers=2, max_len=40, batch=6, mask_rate=0.15, lr=2e-2, steps=4)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x, bias):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        y = (att + bias).softmax(-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.relu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, dim, heads, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.position = nn.Parameter(0.02 * torch.randn(CFG["max_len"], dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, tokens):
        bias = torch.zeros(tokens.shape, device=tokens.device).masked_fill(tokens == PAD, -1e4)[:, None, None]
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x, bias)
        return self.head(self.norm(x))


def sample_batch(gen, batch, max_len, rate):
    length = torch.randint(max_len // 3, max_len + 1, (batch, 1), generator=gen)
    tokens = torch.randint(OFFSET, VOCAB, (batch, max_len), generator=gen)
    valid = torch.arange(max_len) < length
    tokens = tokens * valid
    pick = (torch.rand(batch, max_len, generator=gen) < rate) & valid
    pick[:, 0] = True
    labels = torch.where(pick, tokens, -100)
    return torch.where(pick, MASK, tokens), labels


def residue_loss(logits, labels):
    """Loss of each residue, shaped (batch, length)."""
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
    return loss.view_as(labels)


def train_step(model, opt, tokens, labels):
    logits = model(tokens)
    per_protein = residue_loss(logits, labels).mean(1)
    loss = per_protein.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        pick = labels != -100
        acc = ((logits.argmax(-1) == labels) & pick).sum() / pick.sum()
    return {"loss": loss.detach(), "acc": acc}


def main():
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(18)
    device = torch_xla.device()
    model = Encoder(CFG["dim"], CFG["heads"], CFG["layers"]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=CFG["lr"], momentum=0.9, foreach=False)
    torch_xla.sync()
    for step in range(CFG["steps"]):
        tokens, labels = sample_batch(gen, CFG["batch"], CFG["max_len"], CFG["mask_rate"])
        logs = train_step(model, opt, tokens.to(device), labels.to(device))
        torch_xla.sync()
        print(step, {k: round(v.item(), 4) for k, v in logs.items()})


if __name__ == "__main__":
    main()
