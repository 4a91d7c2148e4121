# Reverse task with an Elman encoder-decoder.
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD, BOS = 0, 1


@dataclass
class HParams:
    vocab: int = 14
    emb: int = 8
    hid: int = 12
    src_len: int = 3
    tgt_len: int = 3
    batch: int = 6
    lr: float = 0.05
    iters: int = 8
    tf_start: float = 1.0
    tf_end: float = 0.3
    seed: int = 5


class Encoder(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.cell = nn.RNNCell(hp.emb, hp.hid)
        self.hid = hp.hid

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.hid)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return h


class Decoder(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.cell = nn.RNNCell(hp.emb, hp.hid)
        self.norm = nn.LayerNorm(hp.hid)
        self.out = nn.Linear(hp.hid, hp.vocab)

    def forward(self, emb, h):
        h = self.cell(emb, h)
        return self.out(self.norm(h)), h


class Seq2Seq(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.embed = nn.Embedding(hp.vocab, hp.emb)
        self.encoder = Encoder(hp)
        self.decoder = Decoder(hp)

    def forward(self, src, tgt, use_teacher):
        h = self.encoder(self.embed(src))
        token = torch.full_like(tgt[:, 0], BOS)
        logits = []
        for t in range(tgt.size(1)):
            step_logits, h = self.decoder(self.embed(token), h)
            logits.append(step_logits)
            token = tgt[:, t] if use_teacher else step_logits.argmax(-1)
        return torch.stack(logits, dim=1)


def batch(hp, g):
    src = torch.randint(2, hp.vocab, (hp.batch, hp.src_len), generator=g)
    return src, src.flip(1)[:, : hp.tgt_len].contiguous()


def tf_ratio(hp, it):
    frac = it / max(1, hp.iters - 1)
    return hp.tf_start + (hp.tf_end - hp.tf_start) * frac


def train(hp):
    random.seed(hp.seed)
    torch.manual_seed(hp.seed)
    g = torch.Generator().manual_seed(hp.seed)
    device = torch_xla.device()
    model = Seq2Seq(hp).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=hp.lr)
    torch_xla.sync()
    for it in range(hp.iters):
        src, tgt = batch(hp, g)
        src, tgt = src.to(device), tgt.to(device)
        optimizer.zero_grad()
        coin = random.random() < tf_ratio(hp, it)
        logits = model(src, tgt, coin)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print("final", loss.item())


if __name__ == "__main__":
    train(HParams())
