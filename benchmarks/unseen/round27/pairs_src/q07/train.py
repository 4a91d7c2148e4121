"""Attention decoder that learns to reverse short digit strings."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PAD, BOS = 0, 1
CONF = dict(symbols=12, emb=10, hid=20, src_len=3, bs=6, lr=0.01, iters=8,
            teacher_start=0.9, teacher_decay=0.75)


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c["symbols"], c["emb"], padding_idx=PAD)
        self.conv = nn.Conv1d(c["emb"], c["hid"], 3, padding=1)

    def forward(self, src):
        memory = torch.tanh(self.conv(self.emb(src).transpose(1, 2))).transpose(1, 2)
        return memory, memory.mean(1)


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c["symbols"], c["emb"], padding_idx=PAD)
        self.cell = nn.GRUCell(c["emb"] + c["hid"], c["hid"])
        self.score = nn.Linear(c["hid"], c["hid"], bias=False)
        self.out = nn.Linear(2 * c["hid"], c["symbols"])

    def step(self, tok, h, memory):
        w = torch.einsum("bh,bth->bt", self.score(h), memory).softmax(-1)
        ctx = torch.einsum("bt,bth->bh", w, memory)
        h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
        return self.out(torch.cat([h, ctx], -1)), h


class Seq2Seq(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Encoder(c)
        self.decoder = Decoder(c)

    def forward(self, src, tgt, teacher_ratio):
        memory, h = self.encoder(src)
        tok = torch.full_like(src[:, 0], BOS)
        logits = []
        for t in range(tgt.shape[1]):
            out, h = self.decoder.step(tok, h, memory)
            logits.append(out)
            if random.random() < teacher_ratio:
                tok = tgt[:, t]
            else:
                tok = out.argmax(-1)
        return torch.stack(logits, 1)


def sample(c, gen):
    src = torch.randint(2, c["symbols"], (c["bs"], c["src_len"]), generator=gen)
    return src, src.flip(1)


def run(c):
    random.seed(8)
    torch.manual_seed(8)
    gen = torch.Generator().manual_seed(80)
    dev = xm.xla_device()
    model = Seq2Seq(c).to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=c["lr"], nesterov=True, momentum=0.9)
    ratio = c["teacher_start"]
    for it in range(c["iters"]):
        src, tgt = (t.to(dev) for t in sample(c, gen))
        opt.zero_grad()
        logits = model(src, tgt, ratio)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(f"{it:3d} teacher {ratio:.3f} loss {loss.item():.4f}")
        ratio *= c["teacher_decay"]


if __name__ == "__main__":
    run(CONF)
