"""Sequence-to-sequence with attention: reverse a string of digits and shift it; GRU decoder with scheduled sampling."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD, BOS, EOS, OFFSET = 0, 1, 2, 3
DIGITS = 8
VOCAB = OFFSET + DIGITS
MAX_SRC, MAX_TGT = 5, 6


def make_batch(n, gen):
    src = torch.zeros(n, MAX_SRC, dtype=torch.long)
    tgt = torch.zeros(n, MAX_TGT, dtype=torch.long)
    lengths = torch.randint(2, MAX_SRC + 1, (n,), generator=gen)
    for i, l in enumerate(lengths.tolist()):
        d = torch.randint(0, DIGITS, (l,), generator=gen)
        src[i, :l] = d + OFFSET
        tgt[i, :l] = (d.flip(0) + 1) % DIGITS + OFFSET
        tgt[i, l] = EOS
    return src, tgt


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(0.1 * torch.randn(MAX_SRC, dim))
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, src):
        mask = src != PAD
        x = self.embed(src) + self.pos
        h = self.norm(x + F.relu(self.conv(x.transpose(1, 2)).transpose(1, 2)))
        return h, mask


class Decoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.cell = nn.GRUCell(2 * dim, dim)
        self.query = nn.Linear(dim, dim)
        self.out = nn.Linear(2 * dim, VOCAB)

    def step(self, token, state, memory, mask):
        scores = torch.einsum("bd,bsd->bs", self.query(state), memory) / math.sqrt(memory.size(-1))
        att = scores.masked_fill(~mask, -1e9).softmax(-1)
        ctx = torch.einsum("bs,bsd->bd", att, memory)
        state = self.cell(torch.cat([self.embed(token), ctx], -1), state)
        return self.out(torch.cat([state, ctx], -1)), state


class Seq2Seq(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder, self.decoder = Encoder(dim), Decoder(dim)

    def forward(self, src, tgt=None, teacher_forcing=0.0):
        memory, mask = self.encoder(src)
        state = (memory * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        token = torch.full_like(src[:, 0], BOS)
        outputs = []
        for t in range(MAX_TGT):
            logits, state = self.decoder.step(token, state, memory, mask)
            outputs.append(logits)
            if tgt is not None and random.random() < teacher_forcing:
                token = tgt[:, t]
            else:
                token = logits.detach().argmax(-1)
        return torch.stack(outputs, 1)


def inverse_sigmoid_ratio(step, k=8.0):
    return k / (k + math.exp(step / k))


@torch.no_grad()
def exact_match(model, src, tgt):
    model.eval()
    pred = model(src).argmax(-1)
    model.train()
    ok = ((pred == tgt) | (tgt == PAD)).all(1)
    return ok.float().mean(), ((pred == tgt) & (tgt != PAD)).sum() / (tgt != PAD).sum()


def train():
    random.seed(31)
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    device = torch_xla.device()
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=6e-3, betas=(0.9, 0.98))
    dev_src, dev_tgt = (t.to(device) for t in make_batch(64, gen))
    best = 0.0

    for step in range(24):
        src, tgt = (t.to(device) for t in make_batch(32, gen))
        ratio = inverse_sigmoid_ratio(step)
        logits = model(src, tgt, teacher_forcing=ratio)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        xm.mark_step()
        if step % 6 == 5:
            em, acc = exact_match(model, dev_src, dev_tgt)
            xm.mark_step()
            best = max(best, acc.item())
            xm.master_print(f"step {step + 1} tf {ratio:.2f} loss {loss.item():.3f} token acc {acc.item():.3f} "
                            f"exact {em.item():.3f} best {best:.3f}")


if __name__ == "__main__":
    train()
