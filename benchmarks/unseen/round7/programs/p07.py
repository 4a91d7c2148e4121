"""Momentum-contrast pretraining on noisy signals, followed by a nearest-neighbour probe."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl

CLASSES, LENGTH, BATCH, DIM = 6, 32, 16, 16


class Signals(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, CLASSES, (n,), generator=g)
        t = torch.linspace(0, 6.28, LENGTH)
        phase = torch.rand(n, 1, generator=g) * 6.28
        self.x = torch.sin(t * (1 + self.label.unsqueeze(1)) + phase)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.x[i], self.label[i]


def view(x):
    scale = 0.8 + 0.4 * torch.rand(x.size(0), 1, device=x.device)
    keep = (torch.rand_like(x) > 0.1).float()
    return (x * scale + 0.1 * torch.randn_like(x)) * keep


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv1d(8, 16, 5, stride=2), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(16 * 5, DIM))

    def forward(self, x):
        return F.normalize(self.net(x.unsqueeze(1)), dim=-1)


class MoCo(nn.Module):
    def __init__(self, queue_size, momentum=0.99, temperature=0.2):
        super().__init__()
        self.query = Encoder()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.queue_size, self.m, self.t = queue_size, momentum, temperature
        self.register_buffer('queue', F.normalize(torch.randn(BATCH, DIM), dim=-1))

    @torch.no_grad()
    def momentum_update(self):
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue = torch.cat([keys, self.queue])[:self.queue_size]

    def forward(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            self.momentum_update()
            k = self.key(b)
        positive = (q * k).sum(-1, keepdim=True)
        negative = q @ self.queue.t()
        logits = torch.cat([positive, negative], dim=1) / self.t
        target = torch.zeros(q.size(0), dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.enqueue(k)
        return loss, (logits.argmax(1) == 0).float().mean()


@torch.no_grad()
def probe(encoder, loader):
    features, labels = [], []
    for x, y in loader:
        features.append(encoder(x).cpu())
        labels.append(y.cpu())
    f, y = torch.cat(features), torch.cat(labels)
    sim = f @ f.t() - 2 * torch.eye(len(f))
    return (y[sim.argmax(1)] == y).float().mean().item()


def pretrain(model, loader, epochs, lr):
    optimizer = torch.optim.SGD(model.query.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        for x, _ in loader:
            optimizer.zero_grad()
            loss, acc = model(view(x), view(x))
            loss.backward()
            optimizer.step()
        print(f'epoch {epoch} loss {loss.item():.3f} instance accuracy {acc.item():.3f}')


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    data = Signals(8 * BATCH, 9)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = MoCo(queue_size=12 * BATCH).to(device)
    pretrain(model, loader, epochs=4, lr=0.05)
    print(f'probe accuracy {probe(model.query, loader):.3f}')


if __name__ == '__main__':
    main()
