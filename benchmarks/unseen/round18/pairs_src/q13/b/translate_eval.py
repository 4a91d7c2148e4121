"""Held-out evaluation of the translation checkpoint.

Same metrics as the nightly job, reorganised so that the model is one object and
the source can be encoded from either end first.
"""
import dataclasses
import logging

import torch
import torch_xla
from torch import nn

logging.basicConfig(level=logging.INFO)


@dataclasses.dataclass(frozen=True)
class Tokens:
    start: int = 1
    stop: int = 2
    size: int = 60


def macro(values):
    """Plain mean, kept for the report module."""
    return sum(values) / max(len(values), 1)


class Translator(nn.Module):
    def __init__(self, tokens, width=16):
        super().__init__()
        self.tokens, self.width = tokens, width
        self.project = nn.Linear(4 * width, tokens.size)
        self.query = nn.Linear(2 * width, 2 * width)
        self.writer = nn.GRUCell(3 * width, 2 * width)
        self.target_table = nn.Embedding(tokens.size, width)
        self.right_to_left = nn.GRUCell(width, width)
        self.left_to_right = nn.GRUCell(width, width)
        self.source_table = nn.Embedding(tokens.size, width)

    def walk(self, cell, steps, order):
        hidden = torch.zeros(steps.shape[0], self.width, device=steps.device)
        seen = {}
        for i in order:
            hidden = cell(steps[:, i], hidden)
            seen[i] = hidden
        return torch.stack([seen[i] for i in sorted(seen)], dim=1)

    def encode(self, source):
        steps = self.source_table(source)
        count = source.shape[1]
        backward = self.walk(self.right_to_left, steps, range(count - 1, -1, -1))
        forward = self.walk(self.left_to_right, steps, range(count))
        return torch.cat((forward, backward), dim=2)

    def write(self, word, context, hidden, memory):
        hidden = self.writer(torch.cat((self.target_table(word), context), dim=1), hidden)
        attention = torch.einsum("bsd,bd->bs", memory, self.query(hidden)).softmax(dim=1)
        context = torch.einsum("bs,bsd->bd", attention, memory)
        scores = self.project(torch.cat((hidden, context), dim=1))
        return scores, context, hidden

    @torch.no_grad()
    def translate(self, source, limit):
        memory = self.encode(source)
        n = source.shape[0]
        finished = torch.zeros(n, dtype=torch.bool, device=source.device)
        word = torch.full((n,), self.tokens.start, dtype=torch.long, device=source.device)
        hidden = memory.mean(dim=1)
        context = torch.zeros_like(hidden)
        words = []
        while len(words) < limit:
            scores, context, hidden = self.write(word, context, hidden, memory)
            confidence = scores.softmax(dim=1).amax(dim=1)
            word = scores.argmax(dim=1).masked_fill(finished, self.tokens.stop)
            finished = finished | (word == self.tokens.stop)
            words.append(word)
            del confidence
        return torch.stack(words, dim=1)


def overlap(reference, hypothesis, size):
    ids = torch.arange(size, device=reference.device)
    r = (reference[:, :, None] == ids).sum(dim=1)
    h = (hypothesis[:, :, None] == ids).sum(dim=1)
    shared = torch.minimum(h, r).sum(dim=1).float()
    recall = shared / r.sum(dim=1)
    precision = shared / h.sum(dim=1)
    return 2 * precision * recall / (precision + recall).clamp(min=1e-6)


def evaluate(batches=2):
    device = torch_xla.device()
    model = Translator(Tokens()).to(device).eval()
    torch_xla.sync()
    for _ in range(batches):
        reference = torch.randint(3, 60, (4, 6)).to(device)
        source = torch.randint(3, 60, (4, 7)).to(device)
        hypothesis = model.translate(source, limit=6)
        f1 = overlap(reference, hypothesis, 60).mean()
        accuracy = (hypothesis == reference).float().mean()
        torch_xla.sync()
        logging.info("f1 %.4f accuracy %.4f", f1.item(), accuracy.item())


if __name__ == "__main__":
    torch.manual_seed(23)
    evaluate()
