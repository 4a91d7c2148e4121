"""A decoder's turns take the true value or the predicted one, as Python's coins fall."""

import torch
import torch_xla
from torch import nn

COINS = ("tttt", "tttt", "tttp", "ttpt", "tptt", "ttpp", "tptp", "tppp")

torch.manual_seed(0)
cell, head = nn.GRUCell(1, 8).to("xla"), nn.Linear(8, 1).to("xla")
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
torch_xla.sync()


def chosen(coin, truth, predicted):
    if coin == "t":
        return truth
    return predicted


def decoded(y, coins):
    value, hidden, outputs = y[:, 4:], torch.zeros(6, 8, device="xla"), []
    for turn, coin in enumerate(coins):
        hidden = cell(value, hidden)
        outputs.append(head(hidden))
        value = chosen(coin, y[:, turn : turn + 1], outputs[-1])
    outputs.append(head(cell(value, hidden)))
    return torch.cat(outputs[1:], 1)


def train(coins):
    y = torch.rand(6, 5).to("xla")
    optimizer.zero_grad()
    (decoded(y, coins) - y[:, :4]).pow(2).mean().backward()
    optimizer.step()
    torch_xla.sync()


for coins in COINS:
    train(coins)
