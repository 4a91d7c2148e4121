"""Stateful GRU on folk melodies with truncated back-propagation through time.

The corpus is cut into parallel streams; the hidden state is carried from one
window to the next and reset at the start of every epoch, as in the classic
word-language-model example.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 5
PITCHES = 36
STREAMS = 12
VAL_STREAMS = 6
BPTT = 6
EPOCHS = 5


def compose(length, gen):
    """Random walk on a scale with a returning motif."""
    scale = torch.tensor([0, 2, 4, 5, 7, 9, 11])
    motif = torch.randint(0, 7, (8,), generator=gen)
    degree, notes = 10, []
    for i in range(length):
        if (i // 8) % 3 == 0:
            degree = int(motif[i % 8]) + 7
        else:
            degree += int(torch.randint(-2, 3, (1,), generator=gen))
        degree = max(0, min(20, degree))
        notes.append(min(PITCHES - 1, int(scale[degree % 7]) + 12 * (degree // 7)))
    return torch.tensor(notes)


def batchify(notes, streams):
    usable = notes.numel() // streams * streams
    return notes[:usable].view(streams, -1).t().contiguous()


class MelodyGRU(nn.Module):
    def __init__(self, hidden=32, layers=2, dropout=0.2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.embed = nn.Embedding(PITCHES, hidden)
        self.cells = nn.ModuleList(nn.GRUCell(hidden, hidden) for _ in range(layers))
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, PITCHES)
        self.out.weight = self.embed.weight

    def initial_state(self, streams, device):
        return torch.zeros(self.layers, streams, self.hidden, device=device)

    def forward(self, notes, state):
        x = self.drop(self.embed(notes))
        hs = list(state.unbind(0))
        outputs = []
        for t in range(notes.shape[0]):
            inp = x[t]
            for i, cell in enumerate(self.cells):
                hs[i] = cell(inp, hs[i])
                inp = self.drop(hs[i])
            outputs.append(inp)
        return self.out(torch.stack(outputs)), torch.stack(hs)


def windows(data):
    for start in range(0, data.shape[0] - 1, BPTT):
        size = min(BPTT, data.shape[0] - 1 - start)
        yield data[start:start + size], data[start + 1:start + 1 + size]


@torch.no_grad()
def perplexity(model, data, device):
    model.eval()
    state = model.initial_state(data.shape[1], device)
    total = torch.zeros((), device=device)
    count = 0
    torch_xla.sync()
    for x, y in windows(data):
        logits, state = model(x.to(device), state)
        total += F.cross_entropy(logits.flatten(0, 1), y.to(device).flatten(), reduction="sum")
        count += y.numel()
        torch_xla.sync()
    model.train()
    return math.exp(min(20.0, total.item() / count))


def main():
    torch.manual_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    device = xm.xla_device()

    train = batchify(compose(STREAMS * 65, gen), STREAMS)
    val = batchify(compose(VAL_STREAMS * 29, gen), VAL_STREAMS)

    model = MelodyGRU().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    torch_xla.sync()

    best = float("inf")
    for epoch in range(EPOCHS):
        state = model.initial_state(STREAMS, device)
        total = torch.zeros((), device=device)
        count = 0
        for x, y in windows(train):
            x, y = x.to(device), y.to(device)
            state = state.detach()
            logits, state = model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())

            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

            total += loss.detach() * y.shape[0]
            count += y.shape[0]
            torch_xla.sync()
        decay.step()

        ppl = perplexity(model, val, device)
        best = min(best, ppl)
        print(f"epoch {epoch} train {total.item() / count:.3f} val ppl {ppl:.2f}")
    print(f"best ppl {best:.2f}")


if __name__ == "__main__":
    main()
