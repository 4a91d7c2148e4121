"""Sequence reversal with an attentive GRU decoder and scheduled sampling."""
import math
import random

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm

PAD, BOS = 0, 1
VOCAB, EMB, HID = 20, 16, 24
SRC_LEN, TGT_LEN, BATCH = 6, 5, 8


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB, padding_idx=PAD)
        self.fwd = nn.GRUCell(EMB, HID)
        self.proj = nn.Linear(HID, HID)

    def forward(self, src):
        e = self.emb(src)
        h = e.new_zeros(src.size(0), HID)
        states = []
        for t in range(src.size(1)):
            h = self.fwd(e[:, t], h)
            states.append(h)
        return torch.stack(states, 1), torch.tanh(self.proj(h))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(HID, HID, bias=False)

    def forward(self, h, mem):
        score = torch.bmm(mem, self.q(h).unsqueeze(-1)).squeeze(-1) / math.sqrt(HID)
        w = score.softmax(-1)
        return torch.bmm(w.unsqueeze(1), mem).squeeze(1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, EMB, padding_idx=PAD)
        self.att = Attention()
        self.cell = nn.GRUCell(EMB + HID, HID)
        self.out = nn.Linear(2 * HID, VOCAB)

    def forward(self, mem, h, tgt, teacher_forcing):
        tok = torch.full((mem.size(0),), BOS, dtype=torch.long, device=mem.device)
        logits = []
        for t in range(tgt.size(1)):
            ctx = self.att(h, mem)
            h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
            step = self.out(torch.cat([h, ctx], -1))
            logits.append(step)
            tok = tgt[:, t] if random.random() < teacher_forcing else step.argmax(-1)
        return torch.stack(logits, 1)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, src, tgt, teacher_forcing=1.0):
        mem, h = self.encoder(src)
        return self.decoder(mem, h, tgt, teacher_forcing)


def inverse_sigmoid(step, k=6.0):
    return k / (k + math.exp(step / k))


def batch(device):
    src = torch.randint(2, VOCAB, (BATCH, SRC_LEN))
    tgt = src.flip(1)[:, :TGT_LEN]
    return src.to(device), tgt.to(device)


def run():
    random.seed(5)
    torch.manual_seed(5)
    device = xm.xla_device()
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    crit = nn.CrossEntropyLoss(ignore_index=PAD)
    for step in range(12):
        src, tgt = batch(device)
        ratio = inverse_sigmoid(step)
        logits = model(src, tgt, ratio)
        loss = crit(logits.reshape(-1, VOCAB), tgt.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt)
        xm.mark_step()
        if (step + 1) % 4 == 0:
            xm.master_print(f"step {step + 1} tf={ratio:.2f} loss={loss.item():.3f}")


if __name__ == "__main__":
    run()
