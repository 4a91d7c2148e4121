"""Sequences of two lengths in no order, each read in a loop: the longer has more turns."""

import random

import torch
import torch_xla
from torch import nn

torch.manual_seed(0)
embedding, cell, head = nn.Embedding(20, 12), nn.GRUCell(12, 12), nn.Linear(12, 20)
model = nn.ModuleList([embedding, cell, head]).to("xla")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
lengths = [3, 5] * 14
random.Random(5).shuffle(lengths)
for length in lengths:
    tokens = torch.randint(0, 20, (8, length)).to("xla")
    h, loss = torch.zeros(8, 12, device="xla"), 0
    for t in range(tokens.shape[1] - 1):
        h = cell(embedding(tokens[:, t]), h)
        loss = loss + nn.functional.cross_entropy(head(h), tokens[:, t + 1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
