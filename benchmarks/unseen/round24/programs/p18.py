"""Spelling normaliser: character encoder, attention decoder."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PAD, BOS = 0, 1
VOCAB, SRC_LEN, TGT_LEN = 24, 7, 6


def batch(n, rng):
    src, tgt = [], []
    for _ in range(n):
        w = [rng.randrange(4, VOCAB) for _ in range(rng.randint(4, TGT_LEN))]
        noisy = list(w)
        noisy.insert(rng.randrange(len(w)), 3)
        src.append(noisy + [PAD] * (SRC_LEN - len(noisy)))
        tgt.append(w + [PAD] * (TGT_LEN - len(w)))
    return torch.tensor(src), torch.tensor(tgt)


class Encoder(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, hid, padding_idx=PAD)
        self.conv = nn.Conv1d(hid, hid, 3, padding=1)

    def forward(self, src):
        e = self.emb(src)
        h = e + torch.tanh(self.conv(e.transpose(1, 2)).transpose(1, 2))
        return h, h.mean(1)


class Decoder(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, hid)
        self.cell = nn.RNNCell(2 * hid, hid)
        self.query = nn.Linear(hid, hid)
        self.out = nn.Linear(2 * hid, VOCAB)

    def forward(self, token, state, memory, mask):
        score = (memory @ self.query(state).unsqueeze(2)).squeeze(2)
        score = score.masked_fill(mask, -1e4)
        ctx = (score.softmax(1).unsqueeze(1) @ memory).squeeze(1)
        state = self.cell(torch.cat([self.emb(token), ctx], 1), state)
        return self.out(torch.cat([state, ctx], 1)), state


class Seq2Seq(nn.Module):
    def __init__(self, hid=24):
        super().__init__()
        self.encoder, self.decoder = Encoder(hid), Decoder(hid)

    def forward(self, src, tgt, teacher_forcing):
        memory, state = self.encoder(src)
        mask = src == PAD
        token = torch.full_like(tgt[:, 0], BOS)
        outputs = []
        for t in range(tgt.size(1)):
            logits, state = self.decoder(token, state, memory, mask)
            outputs.append(logits)
            teacher = random.random() < teacher_forcing
            token = tgt[:, t] if teacher else logits.argmax(1)
        return torch.stack(outputs, 1)


def train_epoch(model, opt, rng, device, steps, teacher_forcing):
    model.train()
    losses = []
    for _ in range(steps):
        src, tgt = batch(16, rng)
        src, tgt = src.to(device), tgt.to(device)
        opt.zero_grad()
        logits = model(src, tgt, teacher_forcing)
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), tgt.reshape(-1), ignore_index=PAD)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt, barrier=True)
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.no_grad()
def exact_match(model, rng, device):
    model.eval()
    src, tgt = batch(16, rng)
    pred = model(src.to(device), tgt.to(device), 0.0).argmax(2).cpu()
    keep = tgt != PAD
    return ((pred == tgt) | ~keep).all(1).float().mean().item()


def main():
    random.seed(7)
    torch.manual_seed(7)
    rng = random.Random(13)
    device = xm.xla_device()
    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        loss = train_epoch(model, opt, rng, device, steps=6, teacher_forcing=0.5)
        print(f"epoch {epoch} loss {loss:.3f} exact {exact_match(model, rng, device):.2f}")


if __name__ == "__main__":
    main()
