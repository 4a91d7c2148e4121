#!/usr/bin/env python
"""Stateful character LSTM: the hidden state runs on from one window to the next."""
import string

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

ALPHABET = string.ascii_lowercase + " .,\n"
TEXT = (
    "the ship left the harbour before the sun was up, and by noon the coast was out of sight. "
    "nobody on deck said much. the wind held from the west, steady and cold.\n"
) * 8


class CharLSTM(nn.Module):
    """Embedding, one LSTM built from cells, tied output projection."""

    def __init__(self, vocab: int, dim: int = 24):
        super().__init__()
        self.dim = dim
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.LSTMCell(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def forward(self, ids, state=None):
        x = self.embed(ids)
        outputs = []
        for t in range(ids.shape[1]):
            state = self.cell(x[:, t], state)
            outputs.append(state[0])
        y = self.norm(torch.stack(outputs, dim=1))
        return y @ self.embed.weight.t() + self.bias, state


class Windows:
    """Cuts the text in `batch` parallel streams and yields consecutive windows."""

    def __init__(self, text: str, batch: int, window: int):
        ids = torch.tensor([ALPHABET.index(c) for c in text])
        per_stream = (len(ids) - 1) // batch
        self.x = ids[: batch * per_stream].view(batch, per_stream)
        self.y = ids[1 : batch * per_stream + 1].view(batch, per_stream)
        self.window = window

    def __iter__(self):
        for start in range(0, self.x.shape[1] - self.window, self.window):
            stop = start + self.window
            yield self.x[:, start:stop], self.y[:, start:stop]


def detach(state):
    return tuple(s.detach() for s in state)


def clip(parameters, limit):
    grads = [p.grad for p in parameters]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    factor = torch.clamp(limit / (norm + 1e-6), max=1.0)
    for g in grads:
        g.mul_(factor)
    return norm


def train(model, windows, device, lr, max_windows):
    criterion = nn.CrossEntropyLoss()
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    state, running = None, []
    for i, (x, y) in enumerate(windows):
        if i == max_windows:
            break
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        logits, state = model(x, state)
        loss = criterion(logits.flatten(0, 1), y.flatten())
        loss.backward()
        clip(list(model.parameters()), 1.0)
        opt.step()
        state = detach(state)
        running.append(loss.detach())
        del logits, loss
        xm.mark_step()
    return torch.stack(running).mean().item()


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    model = CharLSTM(len(ALPHABET)).to(device)
    for epoch in range(2):
        bits = train(model, Windows(TEXT, batch=4, window=6), device, lr=0.5, max_windows=4)
        xm.master_print(f"epoch {epoch}: {bits:.3f} nats/char")
    xm.save(model.state_dict(), "char_lstm.pt")


if __name__ == "__main__":
    main()
