# Goal-directed string generation: REINFORCE plus replay of the good samples.
import random

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ALPHABET = ["<s>", "C", "c", "N", "n", "O", "o", "F", "S", "(", ")", "=", "1", "2", "Cl", "</s>"]
LENGTH = 5
BATCH = 24
STEPS = 30


class Agent(nn.Module):
    def __init__(self, vocab, dim=32, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, hidden)
        self.out = nn.Linear(hidden, vocab)
        self.hidden = hidden

    def step(self, tok, state):
        state = self.cell(self.embed(tok), state)
        return self.out(state), state

    @torch.no_grad()
    def sample(self, n, device):
        tok = torch.zeros(n, dtype=torch.long, device=device)
        state = torch.zeros(n, self.hidden, device=device)
        picked = []
        for _ in range(LENGTH):
            logits, state = self.step(tok, state)
            gumbel = -torch.log(-torch.log(torch.rand_like(logits) + 1e-9) + 1e-9)
            tok = (logits + gumbel).argmax(-1)
            picked.append(tok)
        return torch.stack(picked, 1)

    def log_likelihood(self, seqs):
        n = seqs.shape[0]
        state = torch.zeros(n, self.hidden, device=seqs.device)
        tok = torch.zeros(n, dtype=torch.long, device=seqs.device)
        total = 0.0
        for i in range(LENGTH):
            logits, state = self.step(tok, state)
            tok = seqs[:, i]
            total = total + F.log_softmax(logits, -1).gather(1, tok[:, None]).squeeze(1)
        return total


def oracle(row):
    """Cheap stand-in for a docking score in [0, 1]."""
    text = [ALPHABET[i] for i in row]
    hetero = sum(a in ("N", "n", "O", "o") for a in text)
    balance = abs(text.count("(") - text.count(")"))
    rings = abs(text.count("1") - 2) + abs(text.count("2") - 2)
    carbon = sum(a in ("C", "c") for a in text)
    return max(0.0, min(1.0, 0.25 * hetero + 0.15 * carbon - 0.05 * balance - 0.04 * rings))


class Memory:
    def __init__(self, size=1500, floor=0.2):
        self.size = size
        self.floor = floor
        self.best = {}

    def update(self, rows, scores):
        for row, s in zip(rows, scores):
            if s >= self.floor:
                self.best[tuple(row)] = s
        ranked = sorted(self.best.items(), key=lambda kv: -kv[1])[: self.size]
        self.best = dict(ranked)

    def tensors(self, device):
        seqs = torch.tensor(list(self.best.keys()), dtype=torch.long)
        scores = torch.tensor(list(self.best.values()))
        return seqs.to(device), scores.to(device)


def main():
    random.seed(4)
    torch.manual_seed(4)
    device = xm.xla_device()
    agent = Agent(len(ALPHABET)).to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=2e-3)
    memory = Memory()
    baseline = 0.0

    for step in range(STEPS):
        seqs = agent.sample(BATCH, device)
        torch_xla.sync()
        rows = seqs.cpu().tolist()
        scores = [oracle(r) for r in rows]
        memory.update(rows, scores)

        reward = torch.tensor(scores).to(device)
        centre = torch.tensor(baseline).to(device)
        on_policy = -((reward - centre) * agent.log_likelihood(seqs)).mean()

        past, past_scores = memory.tensors(device)
        replay = -(past_scores * agent.log_likelihood(past)).mean()

        loss = on_policy + 0.1 * replay
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 2.0)
        opt.step()
        torch_xla.sync()

        mean = sum(scores) / len(scores)
        baseline = 0.9 * baseline + 0.1 * mean
        if step % 10 == 9:
            print(f"step {step + 1} mean score {mean:.3f} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
