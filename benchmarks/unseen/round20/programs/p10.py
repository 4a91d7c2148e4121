"""Neural fictitious self-play on a three-card betting game (Kuhn rules, simplified).

The advantage network trains on every deal; the average-policy network
follows every third deal from a reservoir on the host.
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CARDS, ACTIONS = 3, 2
DEALS = 42
TABLES = 16
HISTORIES = ["", "p", "b", "pb"]


def encode(cards, histories):
    x = torch.zeros(len(cards), CARDS + len(HISTORIES))
    for i, (c, h) in enumerate(zip(cards, histories)):
        x[i, c] = 1.0
        x[i, CARDS + HISTORIES.index(h)] = 1.0
    return x


def showdown(mine, other, history, action):
    """Pay-off of the acting player, in antes, against a random opponent."""
    win = 1.0 if mine > other else -1.0
    if action == 0:
        return win if history in ("", "p") else -1.0
    return 2.0 * win


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(CARDS + len(HISTORIES), 24), nn.ReLU(), nn.Linear(24, ACTIONS))

    def forward(self, x):
        return self.net(x)


class Reservoir:
    def __init__(self, size, rnd):
        self.size, self.rnd, self.rows, self.seen = size, rnd, [], 0

    def push(self, row):
        self.seen += 1
        if len(self.rows) < self.size:
            self.rows.append(row)
        else:
            j = self.rnd.randrange(self.seen)
            if j < self.size:
                self.rows[j] = row

    def draw(self, n):
        rows = self.rnd.choices(self.rows, k=n)
        return torch.stack([r[0] for r in rows]), torch.tensor([r[1] for r in rows])


def main():
    rnd = random.Random(52)
    torch.manual_seed(52)
    device = torch_xla.device()
    advantage, average = Table().to(device), Table().to(device)
    opt_adv = torch.optim.Adam(advantage.parameters(), lr=5e-3)
    opt_avg = torch.optim.SGD(average.parameters(), lr=5e-2)
    memory = Reservoir(400, rnd)

    for deal in range(DEALS):
        hands = [rnd.sample(range(CARDS), 2) for _ in range(TABLES)]
        spots = [rnd.choice(HISTORIES) for _ in range(TABLES)]
        features = encode([h[0] for h in hands], spots)
        payoff = torch.tensor([[showdown(h[0], h[1], s, a) for a in range(ACTIONS)]
                               for h, s in zip(hands, spots)])
        gain = payoff - payoff.mean(1, keepdim=True)
        x = features.to(device)
        estimate = advantage(x)
        loss_adv = F.mse_loss(estimate, gain.to(device))
        opt_adv.zero_grad()
        loss_adv.backward()
        opt_adv.step()
        torch_xla.sync()

        for row, choice in zip(features, estimate.argmax(1).tolist()):
            if rnd.random() < 0.1:
                choice = rnd.randrange(ACTIONS)
            memory.push((row, choice))

        if deal % 3 == 2:
            seen, chosen = memory.draw(32)
            loss_avg = F.cross_entropy(average(seen.to(device)), chosen.to(device))
            opt_avg.zero_grad()
            loss_avg.backward()
            opt_avg.step()
            torch_xla.sync()
            if deal % 9 == 8:
                print(f"deal {deal + 1} advantage {loss_adv.item():.3f} policy {loss_avg.item():.3f}")

    with torch.no_grad():
        spots = encode([0, 1, 2], ["", "", ""]).to(device)
        print("opening bet:", [round(v, 2) for v in average(spots).softmax(1)[:, 1].tolist()])


if __name__ == "__main__":
    main()
