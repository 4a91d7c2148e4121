"""Attention seq2seq that spells out months ("11.4" -> "nov4"), character level."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
CHARS = ["<pad>", "<s>", "</s>"] + sorted(set("0123456789." + "".join(MONTHS)))
IDX = {c: i for i, c in enumerate(CHARS)}
PAD, BOS, EOS = 0, 1, 2
SRC_LEN, TGT_LEN = 4, 5


def sample():
    m, y = random.randint(1, 12), random.randint(0, 9)
    src = f"{m}.{y}"
    tgt = f"{MONTHS[m - 1]}{y}"
    s = [IDX[c] for c in src]
    t = [IDX[c] for c in tgt] + [EOS]
    return s + [PAD] * (SRC_LEN - len(s)), t + [PAD] * (TGT_LEN - len(t))


def batches(n, size):
    for _ in range(n):
        s, t = zip(*(sample() for _ in range(size)))
        yield torch.tensor(s), torch.tensor(t)


class Encoder(nn.Module):
    def __init__(self, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), emb, padding_idx=PAD)
        self.fwd = nn.GRUCell(emb, hid)

    def forward(self, src):
        e = self.emb(src)
        mask = (src != PAD).unsqueeze(-1)
        h = e.new_zeros(src.size(0), self.fwd.hidden_size)
        out = []
        for t in range(src.size(1)):
            h = torch.where(mask[:, t], self.fwd(e[:, t], h), h)
            out.append(h)
        return torch.stack(out, 1), h


class Decoder(nn.Module):
    def __init__(self, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), emb, padding_idx=PAD)
        self.cell = nn.GRUCell(emb + hid, hid)
        self.out = nn.Linear(2 * hid, len(CHARS))

    def step(self, tok, h, mem, mask):
        score = torch.bmm(mem, h.unsqueeze(-1)).squeeze(-1)
        w = torch.softmax(score.masked_fill(~mask, -1e4), dim=-1)
        ctx = torch.bmm(w.unsqueeze(1), mem).squeeze(1)
        h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
        return self.out(torch.cat([h, ctx], -1)), h


class Seq2Seq(nn.Module):
    def __init__(self, emb=12, hid=20):
        super().__init__()
        self.encoder = Encoder(emb, hid)
        self.decoder = Decoder(emb, hid)

    def forward(self, src, tgt, teacher_forcing_ratio=0.5):
        mem, h = self.encoder(src)
        mask = src != PAD
        tok = torch.full_like(tgt[:, 0], BOS)
        logits = []
        for t in range(tgt.size(1)):
            out, h = self.decoder.step(tok, h, mem, mask)
            logits.append(out)
            teacher_force = random.random() < teacher_forcing_ratio
            tok = tgt[:, t] if teacher_force else out.argmax(-1)
        return torch.stack(logits, 1)


def main():
    torch.manual_seed(0)
    random.seed(3)
    device = torch_xla.device()
    xm.set_rng_state(0, device)
    model = Seq2Seq().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    torch_xla.sync()
    for step, (src, tgt) in enumerate(batches(6, 16)):
        src, tgt = src.to(device), tgt.to(device)
        logits = model(src, tgt, teacher_forcing_ratio=0.7)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
