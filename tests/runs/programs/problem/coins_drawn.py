"""Scheduled sampling: a coin of Python picks in each turn what a decoder takes next."""

import random

import torch
import torch_xla
from torch import nn

random.seed(0)
torch.manual_seed(0)
table, cell, head = nn.Embedding(6, 8), nn.GRUCell(8, 8), nn.Linear(8, 6)
model = nn.ModuleList([table, cell, head]).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch_xla.sync()


def decoded(gold, ratio):
    token, hidden, outputs = gold[:, 0], torch.zeros(4, 8, device="xla"), []
    for turn in range(3):
        hidden = cell(table(token), hidden)
        outputs.append(head(hidden))
        coin = random.random() < ratio
        token = gold[:, turn] if coin else outputs[-1].argmax(1)
    return torch.stack(outputs, 1)


def train():
    gold = torch.randint(0, 6, (4, 3)).to("xla")
    optimizer.zero_grad()
    nn.functional.cross_entropy(decoded(gold, 0.6).flatten(0, 1), gold.flatten()).backward()
    optimizer.step()
    torch_xla.sync()


for _ in range(9):
    train()
