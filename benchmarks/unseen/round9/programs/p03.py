"""Grapheme-to-phoneme seq2seq with attention on synthetic words."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    chars: int = 20
    phones: int = 24
    emb: int = 24
    hidden: int = 32
    src_len: int = 5
    tgt_len: int = 5
    batch: int = 16
    steps: int = 15
    lr: float = 3e-3
    tf_start: float = 0.95
    tf_end: float = 0.4


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.chars, cfg.emb)
        self.conv = nn.Conv1d(cfg.emb, cfg.hidden, 3, padding=1)
        self.proj = nn.Linear(cfg.hidden, cfg.hidden)

    def forward(self, src):
        h = F.relu(self.conv(self.emb(src).transpose(1, 2))).transpose(1, 2)
        return torch.tanh(self.proj(h))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.phones, cfg.emb)
        self.cell = nn.GRUCell(cfg.emb + cfg.hidden, cfg.hidden)
        self.query = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(2 * cfg.hidden, cfg.phones)

    def forward(self, token, state, memory):
        score = torch.bmm(memory, self.query(state).unsqueeze(2)).squeeze(2)
        ctx = torch.bmm(score.softmax(1).unsqueeze(1), memory).squeeze(1)
        state = self.cell(torch.cat([self.emb(token), ctx], 1), state)
        return self.out(torch.cat([state, ctx], 1)), state


class Seq2Seq(nn.Module):
    BOS = 0

    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)

    def forward(self, src, tgt, teacher_forcing_ratio=0.5):
        memory = self.encoder(src)
        state = memory.mean(1)
        token = torch.full_like(tgt[:, 0], self.BOS)
        outputs = []
        for t in range(tgt.size(1)):
            logits, state = self.decoder(token, state, memory)
            outputs.append(logits)
            use_teacher = random.random() < teacher_forcing_ratio
            token = tgt[:, t] if use_teacher else logits.argmax(1)
        return torch.stack(outputs, 1)


def synthetic_words(cfg, n_batches, seed):
    g = torch.Generator().manual_seed(seed)
    table = torch.randint(1, cfg.phones, (cfg.chars,), generator=g)
    for _ in range(n_batches):
        src = torch.randint(0, cfg.chars, (cfg.batch, cfg.src_len), generator=g)
        tgt = torch.zeros(cfg.batch, cfg.tgt_len, dtype=torch.long)
        tgt[:, : cfg.src_len] = table[src.flip(1)]
        yield src, tgt


def run(cfg):
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Seq2Seq(cfg).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)

    window = []
    for step, (src, tgt) in enumerate(synthetic_words(cfg, cfg.steps, seed=5)):
        src, tgt = src.to(device), tgt.to(device)
        ratio = cfg.tf_start + (cfg.tf_end - cfg.tf_start) * step / cfg.steps
        logits = model(src, tgt, teacher_forcing_ratio=ratio)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        torch_xla.sync()
        window.append(loss.detach())
        if (step + 1) % 5 == 0:
            print(f"step {step + 1}: tf {ratio:.2f} loss {sum(l.item() for l in window) / len(window):.4f}")
            window.clear()


if __name__ == "__main__":
    run(Config())
