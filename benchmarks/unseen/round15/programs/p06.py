"""Tiny seq2seq for glossing Swahili verb forms (synthetic morphology)."""
import random
import string

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PAD, BOS, EOS = 0, 1, 2
LETTERS = {c: i + 3 for i, c in enumerate(string.ascii_lowercase)}
TAGS = ["1SG", "2SG", "3SG", "1PL", "PRS", "PST", "FUT", "PRF", "NEG", "PASS", "CAUS"]
TAG_ID = {t: i + 3 for i, t in enumerate(TAGS)}
AFFIX = {"1SG": "ni", "2SG": "u", "3SG": "a", "1PL": "tu", "PRS": "na", "PST": "li",
         "FUT": "ta", "PRF": "me", "NEG": "ha", "PASS": "w", "CAUS": "ish"}
ROOTS = ["som", "pend", "andik", "fany", "zungumz", "pik", "lal", "imb", "chez", "safir"]

SRC_LEN, TGT_LEN = 20, 8
ROWS = 8
TOKENS_PER_UPDATE = 128


def inflect(rng):
    tags = []
    if rng.random() < 0.3:
        tags.append("NEG")
    tags.append(rng.choice(TAGS[:4]))
    tags.append(rng.choice(TAGS[4:8]))
    root = rng.choice(ROOTS)
    tail = [t for t in ("CAUS", "PASS") if rng.random() < 0.35]
    form = "".join(AFFIX[t] for t in tags) + root + "".join(AFFIX[t] for t in tail) + "a"
    return form, tags + tail


class Corpus:
    """Fixed-size micro-batches; documents differ in how much is annotated."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def rows(self):
        annotated = self.rng.choice([1, 2, 4, 8])
        for i in range(ROWS):
            form, tags = inflect(self.rng)
            yield form, tags if i < annotated else []

    def __iter__(self):
        while True:
            src = torch.full((ROWS, SRC_LEN), PAD)
            tgt = torch.full((ROWS, TGT_LEN), PAD)
            n_tokens = 0
            for i, (form, tags) in enumerate(self.rows()):
                ids = [LETTERS[c] for c in form][:SRC_LEN]
                src[i, :len(ids)] = torch.tensor(ids)
                if tags:
                    out = [BOS] + [TAG_ID[t] for t in tags] + [EOS]
                    tgt[i, :len(out)] = torch.tensor(out)
                    n_tokens += len(out) - 1
            yield src, tgt, n_tokens


class Glosser(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.src = nn.Embedding(len(LETTERS) + 3, width)
        self.tgt = nn.Embedding(len(TAGS) + 3, width)
        self.pos = nn.Parameter(0.02 * torch.randn(SRC_LEN, width))
        self.enc = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.query = nn.Linear(width, width)
        self.out = nn.Linear(2 * width, len(TAGS) + 3)

    def forward(self, src, tgt):
        memory = self.enc(self.src(src) + self.pos)
        q = self.tgt(tgt) + self.pos[:tgt.size(1)]
        score = self.query(q) @ memory.transpose(1, 2) / memory.size(-1) ** 0.5
        score = score.masked_fill((src == PAD).unsqueeze(1), -1e4)
        ctx = score.softmax(-1) @ memory
        return self.out(torch.cat([q, ctx], -1))


def token_loss(model, src, tgt):
    logits = model(src, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(),
                           ignore_index=PAD, reduction="sum")


def train(updates=36, seed=13):
    torch.manual_seed(seed)
    device = xm.xla_device()
    model = Glosser().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    xm.mark_step()

    stream = iter(Corpus(seed))
    update, tokens, seen = 0, 0, 0
    loss_sum = torch.zeros((), device=device)
    while update < updates:
        src, tgt, n = next(stream)
        loss = token_loss(model, src.to(device), tgt.to(device))
        (loss / TOKENS_PER_UPDATE).backward()
        loss_sum += loss.detach()
        tokens += n
        if tokens < TOKENS_PER_UPDATE:
            continue

        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=False)
        xm.mark_step()
        update += 1
        seen += tokens
        tokens = 0
        if update % 12 == 0:
            xm.master_print(f"update {update}: {loss_sum.item() / seen:.3f} nats/token")
            loss_sum.zero_()
            seen = 0
    return model


if __name__ == "__main__":
    train()
