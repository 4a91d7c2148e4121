import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# sort a bag of digits: set encoder, recurrent decoder with dot attention

N_TOK = 14
PAD, BOS, EOS = 0, 1, 2
LEN = 4
HID = 20
BATCH = 12
TEACHER_FORCING = 0.6


class SetEncoder(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.emb = emb
        self.proj = nn.Linear(HID, HID)

    def forward(self, src):
        memory = torch.tanh(self.proj(self.emb(src)))
        return memory, memory.mean(1)


class Decoder(nn.Module):
    def __init__(self, emb):
        super().__init__()
        self.emb = emb
        self.cell = nn.RNNCell(HID, HID)
        self.mix = nn.Linear(2 * HID, HID)
        self.out = nn.Linear(HID, N_TOK)

    def step(self, tok, h, memory):
        h = self.cell(self.emb(tok), h)
        att = torch.softmax(torch.einsum("bh,bsh->bs", h, memory), -1)
        ctx = torch.einsum("bs,bsh->bh", att, memory)
        o = torch.tanh(self.mix(torch.cat([h, ctx], -1)))
        return self.out(o), h


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        emb = nn.Embedding(N_TOK, HID, padding_idx=PAD)
        self.encoder = SetEncoder(emb)
        self.decoder = Decoder(emb)

    def forward(self, src, tgt, tf_ratio):
        memory, h = self.encoder(src)
        tok = torch.full((src.size(0),), BOS, dtype=torch.long, device=src.device)
        use_teacher = random.random() < tf_ratio
        logits = []
        for t in range(tgt.size(1)):
            o, h = self.decoder.step(tok, h, memory)
            logits.append(o)
            tok = tgt[:, t] if use_teacher else o.argmax(-1)
        return torch.stack(logits, 1)


def batch(gen):
    body = torch.randint(3, N_TOK, (BATCH, LEN - 1), generator=gen)
    eos = torch.full((BATCH, 1), EOS)
    return body, torch.cat([body.sort(1).values, eos], 1)


def run(n_steps=9):
    random.seed(4)
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(4)
    dev = torch_xla.device()
    model = Sorter().to(dev)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    torch_xla.sync()
    history = []
    for i in range(n_steps):
        src, tgt = batch(gen)
        src, tgt = src.to(dev), tgt.to(dev)
        with torch_xla.step():
            optimizer.zero_grad()
            logits = model(src, tgt, TEACHER_FORCING)
            loss = F.cross_entropy(logits.reshape(-1, N_TOK), tgt.reshape(-1), ignore_index=PAD)
            loss.backward()
            optimizer.step()
        history.append(loss.detach())
    print(" ".join(f"{l.item():.3f}" for l in history))


if __name__ == "__main__":
    run()
