import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Tabular(nn.Module):
    def __init__(self, n_num, cards, classes, emb=4, hidden=(32, 16)):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(c, emb) for c in cards])
        self.bn = nn.BatchNorm1d(n_num)
        sizes = [n_num + emb * len(cards)] + list(hidden)
        layers = []
        for a, b in zip(sizes[:-1], sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU(), nn.LayerNorm(b)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, num, cat):
        x = torch.cat([self.bn(num)] + [e(cat[:, i]) for i, e in enumerate(self.embs)], 1)
        return self.head(self.body(x))


class ClassBalancedLoss:
    def __init__(self, classes, device, beta=0.99):
        self.device, self.beta = device, beta
        self.weight = torch.full((classes,), 0.9).to(device)

    def update(self, counts):
        eff = (1.0 - np.power(self.beta, counts)) / (1.0 - self.beta)
        w = 1.0 / np.maximum(eff, 1e-3)
        w = w / w.sum() * len(w)
        self.weight = torch.from_numpy(w).to(self.device)

    def __call__(self, logits, target):
        ce = F.cross_entropy(logits, target, reduction='none')
        return (self.weight[target] * ce).mean()


class Table:
    def __init__(self, rows, seed=0):
        r = np.random.default_rng(seed)
        self.num = torch.from_numpy(r.normal(size=(rows, 7)).astype('float32'))
        self.cat = torch.from_numpy(r.integers(0, 10, size=(rows, 2)))
        self.y = torch.from_numpy(r.choice(3, size=rows, p=[.85, .1, .05]))

    def loader(self, bs):
        order = torch.randperm(len(self.y))
        for i in range(0, len(order) - bs + 1, bs):
            j = order[i:i + bs]
            yield self.num[j], self.cat[j], self.y[j]


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    table = Table(160)
    model = Tabular(7, (10, 10), 3).to(device)
    criterion = ClassBalancedLoss(3, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        counts = np.zeros(3)
        for num, cat, y in table.loader(32):
            counts += np.bincount(y.numpy(), minlength=3)
            num, cat, y = num.to(device), cat.to(device), y.to(device)
            loss = criterion(model(num, cat), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
        criterion.update(counts)
        print('epoch', epoch, 'loss', loss.item(), 'counts', counts)


if __name__ == '__main__':
    main()
