"""Joint intent + slot tagging on synthetic utterances."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass(frozen=True)
class TaggerConfig:
    vocab: int = 60
    hidden: int = 24
    heads: int = 3
    n_slots: int = 7
    n_intents: int = 4
    max_tokens: int = 10
    batch: int = 5
    eps: float = 1e-5
    intent_weight: float = 0.5

    @property
    def head_dim(self):
        return self.hidden // self.heads


def rms_norm(x, scale, eps):
    inv = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (inv * x) * scale


class IntentHead(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj = nn.Linear(c.hidden, c.n_intents)

    def forward(self, tokens, valid):
        w = valid.to(tokens.dtype)[..., None]
        return self.proj((w * tokens).sum(dim=1) / w.sum(dim=1))


class Mixer(nn.Module):
    """Multi-head attention with a key padding mask."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.out = nn.Linear(c.hidden, c.hidden)
        self.value = nn.Linear(c.hidden, c.hidden)
        self.key = nn.Linear(c.hidden, c.hidden)
        self.query = nn.Linear(c.hidden, c.hidden)

    def heads(self, x):
        return x.unflatten(-1, (self.c.heads, self.c.head_dim)).transpose(1, 2)

    def forward(self, x, valid):
        value, key, query = (self.heads(f(x)) for f in (self.value, self.key, self.query))
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.c.head_dim ** -0.5
        scores = scores.masked_fill(valid.logical_not()[:, None, None, :], -1e4)
        ctx = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.out(ctx.transpose(1, 2).flatten(2))


class GatedMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w_in = nn.Linear(c.hidden, 2 * c.hidden)
        self.w_gate = nn.Linear(c.hidden, 2 * c.hidden)
        self.w_out = nn.Linear(2 * c.hidden, c.hidden)

    def forward(self, x):
        g = self.w_gate(x)
        return self.w_out(self.w_in(x) * F.silu(g))


class Tagger(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.intents = IntentHead(c)
        self.slots = nn.Linear(c.hidden, c.n_slots)
        self.mlp = GatedMLP(c)
        self.mixer = Mixer(c)
        self.scale_mlp = nn.Parameter(torch.ones(c.hidden))
        self.scale_mixer = nn.Parameter(torch.ones(c.hidden))
        self.words = nn.Embedding(c.vocab, c.hidden)

    def forward(self, ids, valid):
        x = self.words(ids)
        x = self.mixer(rms_norm(x, self.scale_mixer, self.c.eps), valid) + x
        x = self.mlp(rms_norm(x, self.scale_mlp, self.c.eps)) + x
        return {"intent": self.intents(x, valid), "slot": self.slots(x)}


def joint_loss(c, out, valid, slots, intent):
    intent_term = F.nll_loss(out["intent"].log_softmax(-1), intent)
    per_token = F.cross_entropy(out["slot"].flatten(0, 1), slots.flatten(), reduction="none")
    keep = valid.flatten().to(per_token.dtype)
    slot_term = torch.sum(keep * per_token) / torch.sum(keep)
    return c.intent_weight * intent_term + slot_term


class Trainer:
    def __init__(self, c, seed=0):
        torch.manual_seed(seed)
        self.c = c
        self.device = torch_xla.device()
        self.model = Tagger(c).to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        torch_xla.sync()

    def step(self, ids, valid, slots, intent):
        self.opt.zero_grad()
        loss = joint_loss(self.c, self.model(ids, valid), valid, slots, intent)
        loss.backward()
        self.opt.step()
        return loss.detach()


def make_batch(c, g):
    ids = torch.randint(1, c.vocab, (c.batch, c.max_tokens), generator=g)
    lens = torch.randint(4, c.max_tokens + 1, (c.batch,), generator=g)
    valid = torch.arange(c.max_tokens)[None] < lens[:, None]
    return ids, valid, ids % c.n_slots, ids[:, 0] % c.n_intents


def main(steps=4):
    c = TaggerConfig()
    trainer = Trainer(c)
    g = torch.Generator().manual_seed(1)
    for i in range(steps):
        loss = trainer.step(*[t.to(trainer.device) for t in make_batch(c, g)])
        torch_xla.sync()
        print(i, loss.item())


if __name__ == "__main__":
    main()
