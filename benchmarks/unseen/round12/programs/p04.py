# Number words -> digits, encoder / attention decoder.
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD, SOS = 0, 1
SRC_VOCAB, TGT_VOCAB = 40, 14
SRC_LEN, TGT_LEN = 8, 5
HIDDEN = 32
BATCH = 16

random.seed(2)
torch.manual_seed(2)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(SRC_VOCAB, HIDDEN)
        self.convs = nn.ModuleList(nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1) for _ in range(2))
        self.summary = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, src):
        h = self.emb(src).transpose(1, 2)
        for conv in self.convs:
            h = h + torch.tanh(conv(h))
        h = h.transpose(1, 2)
        return h, torch.tanh(self.summary(h.mean(1)))


class AttnDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(TGT_VOCAB, HIDDEN)
        self.cell = nn.GRUCell(2 * HIDDEN, HIDDEN)
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(2 * HIDDEN, TGT_VOCAB)

    def step(self, token, hidden, memory):
        score = torch.bmm(memory, self.query(hidden).unsqueeze(2)).squeeze(2)
        ctx = torch.bmm(score.softmax(1).unsqueeze(1), memory).squeeze(1)
        hidden = self.cell(torch.cat([self.emb(token), ctx], 1), hidden)
        return self.out(torch.cat([hidden, ctx], 1)), hidden


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, tgt, teacher_forcing):
        memory, hidden = self.encoder(src)
        token = torch.full_like(tgt[:, 0], SOS)
        outputs = []
        for t in range(tgt.shape[1]):
            logits, hidden = self.decoder.step(token, hidden, memory)
            outputs.append(logits)
            if random.random() < teacher_forcing:
                token = tgt[:, t]
            else:
                token = logits.argmax(1)
        return torch.stack(outputs, 1)


def batch():
    digits = torch.randint(0, 10, (BATCH, TGT_LEN))
    words = torch.full((BATCH, SRC_LEN), PAD)
    words[:, :TGT_LEN] = digits * 3 + 5 + torch.randint(0, 3, (BATCH, TGT_LEN))
    return words, digits + 3


def inverse_sigmoid(step, k):
    return k / (k + math.exp(step / k))


def train(steps=14):
    device = torch_xla.device()
    model = Seq2Seq(Encoder(), AttnDecoder()).to(device)
    enc_opt = torch.optim.SGD(model.encoder.parameters(), lr=0.1)
    dec_opt = torch.optim.SGD(model.decoder.parameters(), lr=0.1)
    for step in range(steps):
        src, tgt = (t.to(device) for t in batch())
        ratio = inverse_sigmoid(step, 5.0)
        logits = model(src, tgt, ratio)
        loss = F.cross_entropy(logits.reshape(-1, TGT_VOCAB), tgt.reshape(-1), ignore_index=PAD)
        enc_opt.zero_grad()
        dec_opt.zero_grad()
        loss.backward()
        enc_opt.step()
        dec_opt.step()
        torch_xla.sync()
        if step % 4 == 0:
            print("step %3d  tf %.2f  loss %.4f" % (step, ratio, loss.item()))


train()
