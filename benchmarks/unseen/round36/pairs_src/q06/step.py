"""Grapheme-to-phoneme model, GRU decoder with scheduled sampling."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla import _XLAC

PAD, BOS = 0, 1


class G2P(nn.Module):
    def __init__(self, graphemes=28, phonemes=40, width=12):
        super().__init__()
        self.gemb = nn.Embedding(graphemes, width)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.pemb = nn.Embedding(phonemes, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(2 * width, phonemes)

    def encode(self, word):
        h = self.gemb(word).transpose(1, 2)
        h = torch.tanh(self.conv(h)).transpose(1, 2)
        return h.masked_fill((word == PAD).unsqueeze(2), 0.0)

    def attend(self, s, memory, word):
        score = torch.bmm(memory, s.unsqueeze(2)).squeeze(2)
        score = score.masked_fill(word == PAD, -1e4)
        w = torch.softmax(score, dim=1)
        return torch.bmm(w.unsqueeze(1), memory).squeeze(1)

    def forward(self, word, phones, teacher):
        """teacher[t]: feed the true phoneme t (else the model's own) when predicting t + 1."""
        memory = self.encode(word)
        s = memory.mean(1)
        fed = torch.full_like(phones[:, 0], BOS)
        logits = []
        for t in range(phones.shape[1]):
            ctx = self.attend(s, memory, word)
            s = self.cell(torch.cat([self.pemb(fed), ctx], dim=1), s)
            step = self.out(torch.cat([s, ctx], dim=1))
            logits.append(step)
            fed = phones[:, t] if teacher[t] else step.argmax(dim=1)
        return torch.stack(logits, dim=1)


class Schedule:
    """Probability of the true phoneme, inverse sigmoid decay (k / (k + exp(i / k)))."""

    def __init__(self, k, seed):
        self.k = k
        self.rng = random.Random(seed)

    def draw(self, i, length):
        p = self.k / (self.k + 2.718281828 ** (i / self.k))
        return [self.rng.random() < p for _ in range(length)]


def train_step(model, opt, word, phones, teacher):
    opt.zero_grad()
    logits = model(word, phones, teacher)
    loss = F.cross_entropy(logits.flatten(0, 1), phones.flatten(), ignore_index=PAD)
    loss.backward()
    opt.step()
    return loss.detach()


def batch(gen, device, n=6, letters=7, sounds=3):
    word = torch.randint(2, 28, (n, letters), generator=gen)
    phones = torch.randint(2, 40, (n, sounds), generator=gen)
    word[: n // 2, -2:] = PAD
    phones[: n // 2, -1] = PAD
    return word.to(device), phones.to(device)


def pending(model, opt, *extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad]
        out += [v for _, v in sorted(opt.state[p].items())
                if torch.is_tensor(v) and v.device.type == "xla"]
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--dump", nargs="*", default=[], help="STEP=FILE (steps from 0)")
    args = ap.parse_args()
    dump = dict(d.split("=", 1) for d in args.dump)

    torch.manual_seed(41)
    device = torch_xla.device()
    model = G2P().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    gen = torch.Generator().manual_seed(42)
    schedule = Schedule(k=4.0, seed=43)
    torch_xla.sync()
    for i in range(args.steps):
        word, phones = batch(gen, device)
        teacher = schedule.draw(i, phones.shape[1])
        loss = train_step(model, opt, word, phones, teacher)
        if str(i) in dump:
            with open(dump[str(i)], "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(model, opt, loss)))
        torch_xla.sync()
        print(i, loss.item(), "".join("T" if t else "." for t in teacher))


if __name__ == "__main__":
    main()
