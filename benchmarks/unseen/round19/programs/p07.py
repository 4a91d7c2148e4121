"""Self-play on a small king-and-pawns board: play, learn, compare with the previous champion."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIDE = 5
MOVES = SIDE * SIDE * 3  # from-square x (left capture, push, right capture)
GAMES = 16
MAX_PLIES = 24


class PawnBoard:
    def __init__(self):
        self.cells = np.zeros((SIDE, SIDE), np.int8)
        self.cells[0], self.cells[-1] = -1, 1
        self.winner = 0

    def planes(self):
        return np.stack([self.cells == 1, self.cells == -1]).astype(np.float32)

    def legal(self):
        mask = np.zeros((SIDE, SIDE, 3), bool)
        for r, c in zip(*np.nonzero(self.cells == 1)):
            for k, dc in enumerate((-1, 0, 1)):
                if r > 0 and 0 <= c + dc < SIDE:
                    target = self.cells[r - 1, c + dc]
                    mask[r, c, k] = target == 0 if dc == 0 else target == -1
        return mask.reshape(-1)

    def play(self, move):
        square, k = divmod(int(move), 3)
        r, c = divmod(square, SIDE)
        self.cells[r, c] = 0
        self.cells[r - 1, c + k - 1] = 1
        won = r - 1 == 0 or not (self.cells == -1).any()
        self.cells = -self.cells[::-1].copy()
        return won


class PolicyValue(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.c1 = nn.Conv2d(2, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, width, 3, padding=1)
        self.policy = nn.Linear(width * SIDE * SIDE, MOVES)
        self.value = nn.Linear(width * SIDE * SIDE, 1)

    def forward(self, x):
        z = F.relu(self.c2(F.relu(self.c1(x)))).flatten(1)
        return self.policy(z), torch.tanh(self.value(z)).squeeze(1)


def play_games(nets, device, rng, temperature):
    """All boards advance together; finished ones stay in the batch. Returns (planes, move, result) rows."""
    boards, alive = [PawnBoard() for _ in range(GAMES)], np.ones(GAMES, bool)
    history, result = [[] for _ in range(GAMES)], np.zeros(GAMES)
    for ply in range(MAX_PLIES):
        planes = np.stack([b.planes() for b in boards])
        legal = np.stack([b.legal() for b in boards])
        with torch.no_grad():
            logits, _ = nets[ply % 2](torch.from_numpy(planes).to(device))
            logits = logits.masked_fill(~torch.from_numpy(legal).to(device), -1e9)
            probs = torch.softmax(logits / temperature, dim=-1).cpu().double().numpy()
        for g in np.flatnonzero(alive):
            if not legal[g].any():
                alive[g] = False
                continue
            move = rng.choice(MOVES, p=probs[g] / probs[g].sum())
            history[g].append((planes[g], move))
            if boards[g].play(move):
                result[g], alive[g] = 1 - 2 * (ply % 2), False
        if not alive.any():
            break
    rows = [(p, m, result[g] * (1 - 2 * (k % 2))) for g in range(GAMES) for k, (p, m) in enumerate(history[g])]
    return rows, result


def learn(net, opt, rows, device, rng, updates, batch=64):
    for _ in range(updates):
        pick = [rows[i] for i in rng.integers(0, len(rows), batch)]
        x = torch.from_numpy(np.stack([p for p, _, _ in pick])).to(device)
        move = torch.tensor([int(m) for _, m, _ in pick]).to(device)
        z = torch.tensor([float(r) for _, _, r in pick]).to(device)
        logits, value = net(x)
        policy = (F.cross_entropy(logits, move, reduction="none") * z).mean()
        loss = policy + F.mse_loss(value, z)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    return loss.item()


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = xm.xla_device()
    net = PolicyValue().to(device)
    champion = copy.deepcopy(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    window = []
    for generation in range(5):
        temperature = 1.5 - 0.2 * generation
        rows, _ = play_games((net, net), device, rng, temperature)
        window = (window + rows)[-1500:]
        loss = learn(net, opt, window, device, rng, updates=8)
        _, result = play_games((net, champion), device, rng, temperature=0.5)
        print(f"gen {generation}: rows {len(window)} loss {loss:.3f} arena {result.mean():+.2f}")
        if result.mean() > 0.1:
            champion.load_state_dict(net.state_dict())


if __name__ == "__main__":
    main()
