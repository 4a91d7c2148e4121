import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset


class Triples(Dataset):
    """Knowledge graph triples: head, relation, tail."""

    def __init__(self, n=96):
        g = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, 30, (n, 3), generator=g)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class DistMult(nn.Module):
    def __init__(self, entities=30, relations=30, d=8):
        super().__init__()
        self.e, self.r = nn.Embedding(entities, d), nn.Embedding(relations, d)

    def forward(self, h, r, t):
        return (self.e(h) * self.r(r) * self.e(t)).sum(-1)


def corrupt(triples, negatives):
    h, r, t = triples.unbind(1)
    wrong = torch.randint(0, 30, (len(t), negatives)).to(t.device)
    return h[:, None], r[:, None], torch.cat([t[:, None], wrong], 1)


def main():
    torch.manual_seed(0)
    rng = random.Random(1)
    accelerator = Accelerator(cpu=False)
    model = DistMult()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(Triples(), batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, triples in enumerate(loader):
        scores = model(*corrupt(triples, negatives=rng.randint(2, 12)))
        target = torch.zeros(len(triples), dtype=torch.long, device=scores.device)
        loss = F.cross_entropy(scores, target)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        accelerator.print(step, loss.item())


main()
