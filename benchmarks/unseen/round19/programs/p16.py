"""Multi-task dialogue understanding with gradient surgery.

Four tasks share one encoder: intent and domain per dialogue, act and emotion per turn.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, LENGTH, BATCH, STEPS = 120, 40, 4, 30
TASKS = {"intent": 7, "domain": 4, "act": 5, "emotion": 6}
MAX_TURNS = 6


def turn_lengths(rng):
    k = rng.randint(3, MAX_TURNS)
    cuts = sorted(rng.sample(range(3, LENGTH - 2), k - 1))
    return [b - a for a, b in zip([0] + cuts, cuts + [LENGTH])]


def dialogues(rng, gen):
    while True:
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH), generator=gen)
        lengths = [turn_lengths(rng) for _ in range(BATCH)]
        first = torch.stack([t[0] for t in tokens])
        turns = []
        for row, lens in zip(tokens, lengths):
            turns.extend(int(part[0]) for part in torch.split(row, lens))
        turns = torch.tensor(turns)
        yield tokens, lengths, {
            "intent": first % 7, "domain": first % 4, "act": turns % 5, "emotion": turns % 6,
        }


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, dim))
        self.mix = nn.Conv1d(dim, dim, 5, padding=2)
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))

    def forward(self, tokens):
        h = self.embed(tokens) + self.place
        h = h + self.mix(h.transpose(1, 2)).transpose(1, 2)
        return h + self.ff(self.norm(h))


def pool_turns(hidden, lengths):
    pooled = []
    for h, lens in zip(hidden, lengths):
        pooled += [part.mean(0) for part in torch.split(h, lens)]
    return torch.stack(pooled)


def task_losses(encoder, heads, tokens, lengths, labels):
    hidden = encoder(tokens)
    whole = hidden.mean(1)
    turns = pool_turns(hidden, lengths)
    losses = {}
    for task, head in heads.items():
        source = turns if task in ("act", "emotion") else whole
        losses[task] = F.cross_entropy(head(source), labels[task])
    return losses


def flat_gradient(loss, params):
    grads = torch.autograd.grad(loss, params, retain_graph=True)
    return torch.cat([g.reshape(-1) for g in grads])


def surgery(grads, rng):
    """Project every task gradient off the ones it conflicts with (PCGrad)."""
    result = torch.zeros_like(grads[0])
    for i, own in enumerate(grads):
        others = [j for j in range(len(grads)) if j != i]
        rng.shuffle(others)
        g = own
        for j in others:
            overlap = torch.dot(g, grads[j]).clamp(max=0.0)
            g = g - overlap / grads[j].pow(2).sum().clamp(min=1e-8) * grads[j]
        result = result + g
    return result


def assign(params, flat):
    offset = 0
    for p in params:
        p.grad = flat[offset:offset + p.numel()].view_as(p).clone()
        offset += p.numel()


def main():
    torch.manual_seed(16)
    rng, gen = random.Random(16), torch.Generator().manual_seed(16)
    device = xm.xla_device()
    encoder = Encoder().to(device)
    heads = nn.ModuleDict({t: nn.Linear(32, n) for t, n in TASKS.items()}).to(device)
    shared = list(encoder.parameters())
    opt = torch.optim.AdamW([*shared, *heads.parameters()], lr=2e-3)

    data = dialogues(rng, gen)
    for step in range(STEPS):
        tokens, lengths, labels = next(data)
        labels = {k: v.to(device) for k, v in labels.items()}
        losses = task_losses(encoder, heads, tokens.to(device), lengths, labels)
        opt.zero_grad()
        grads = [flat_gradient(losses[t], shared) for t in TASKS]
        sum(losses.values()).backward(inputs=list(heads.parameters()))
        assign(shared, surgery(grads, rng))
        opt.step()
        xm.mark_step()
        if (step + 1) % 10 == 0:
            print(step + 1, {t: round(v.item(), 3) for t, v in losses.items()})


if __name__ == "__main__":
    main()
