import random
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class SequenceRecommender(nn.Module):
    """Next-item prediction from the last items of a session."""

    def __init__(self, items=60, d=12):
        super().__init__()
        self.items = nn.Embedding(items, d)
        self.decay = nn.Parameter(torch.tensor(0.5))
        self.proj = nn.Linear(d, d)

    def forward(self, history, lengths):
        e = self.items(history)
        age = torch.arange(history.shape[1], device=e.device)
        weight = torch.exp(-F.softplus(self.decay) * (lengths[:, None] - 1 - age))
        weight = weight * (age < lengths[:, None])
        user = (e * weight[..., None]).sum(1) / weight.sum(1, keepdim=True)
        return self.proj(user) @ self.items.weight.t()


class Sessions:
    def __init__(self, seed, longest=14):
        self.rng, self.longest = random.Random(seed), longest

    def batch(self, n):
        rows = [[self.rng.randrange(60) for _ in range(self.rng.randint(2, self.longest))] for _ in range(n)]
        history = torch.zeros(n, self.longest, dtype=torch.long)
        for r, items in zip(history, rows):
            r[:len(items)] = torch.tensor(items)
        return history, torch.tensor([len(r) for r in rows]), torch.tensor([r[0] for r in rows])


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model, sessions = SequenceRecommender().to(dev), Sessions(9)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for i in range(10):
        history, lengths, target = sessions.batch(8)
        history = history[:, :lengths.max()].to(dev)
        loss = F.cross_entropy(model(history, lengths.to(dev)), target.to(dev))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, loss.item())


main()
