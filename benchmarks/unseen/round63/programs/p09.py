"""FedAvgM simulation for keyword spotting on simulated phones.

Every round a few clients train locally with FedProx, the server averages their
updates by example count and applies server momentum."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MELS, FRAMES, WORDS = 12, 20, 5


def client_shard(cid, n):
    rng = np.random.default_rng(1000 + cid)
    prior = rng.dirichlet(np.full(WORDS, 0.7))
    y = rng.choice(WORDS, n, p=prior)
    t = np.linspace(0, 1, FRAMES)[None, None]
    m = np.linspace(0, 1, MELS)[None, :, None]
    centre = (y / WORDS)[:, None, None]
    x = np.exp(-((m - centre - 0.3 * t) ** 2) / 0.02) + rng.normal(0, 0.2 + 0.02 * cid, (n, MELS, FRAMES))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


class DSConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.dw = nn.Conv1d(cin, cin, 5, padding=2, groups=cin)
        self.pw = nn.Conv1d(cin, cout, 1)
        self.gn = nn.GroupNorm(4, cout)

    def forward(self, x):
        return F.relu(self.gn(self.pw(self.dw(x))))


def keyword_net():
    return nn.Sequential(DSConv(MELS, 16), DSConv(16, 16), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, WORDS))


@torch.no_grad()
def load_into(net, weights):
    for p, w in zip(net.parameters(), weights):
        p.copy_(w)


class Client:
    def __init__(self, cid, n, batch):
        self.cid, self.n, self.batch = cid, n, batch
        self.x, self.y = client_shard(cid, n)
        self.rng = np.random.default_rng(cid)

    def minibatches(self, local_steps):
        for _ in range(local_steps):
            idx = torch.from_numpy(self.rng.choice(self.n, self.batch, replace=False))
            yield self.x[idx], self.y[idx]

    def fit(self, net, anchor, local_steps, lr, mu, device):
        load_into(net, anchor)
        anchor = [a.to(device) for a in anchor]
        opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        for x, y in self.minibatches(local_steps):
            x, y = x.to(device), y.to(device)
            prox = sum((p - a).pow(2).sum() for p, a in zip(net.parameters(), anchor))
            loss = F.cross_entropy(net(x), y) + 0.5 * mu * prox
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch_xla.sync()
        return [(p.detach() - a).cpu() for p, a in zip(net.parameters(), anchor)], loss.item()


class Server:
    def __init__(self, net, momentum=0.6):
        self.params = [p.detach().cpu() for p in net.parameters()]
        self.momentum = momentum
        self.velocity = None

    def aggregate(self, deltas, counts):
        total = float(sum(counts))
        mean = [torch.zeros_like(p) for p in self.params]
        for delta, n in zip(deltas, counts):
            for acc, d in zip(mean, delta):
                acc.add_(d * (n / total))
        if self.velocity is None:
            self.velocity = mean
        else:
            self.velocity = [self.momentum * v + m for v, m in zip(self.velocity, mean)]
        self.params = [p + v for p, v in zip(self.params, self.velocity)]


@torch.no_grad()
def global_accuracy(net, server, x, y):
    load_into(net, server.params)
    acc = (net(x).argmax(1) == y).float().mean()
    torch_xla.sync()
    return acc.item()


def main():
    torch.manual_seed(66)
    picker = np.random.default_rng(66)
    device = torch_xla.device()
    sizes = [48, 80, 33, 120, 64, 57, 96]
    clients = [Client(i, n, batch=16) for i, n in enumerate(sizes)]
    tx, ty = (t.to(device) for t in client_shard(50, 64))
    net = keyword_net().to(device)
    server = Server(net)
    torch_xla.sync()
    for rnd in range(1, 7):
        chosen = picker.choice(len(clients), 3, replace=False)
        lr = 0.1 * 0.93 ** rnd
        deltas, counts, losses = [], [], []
        for cid in chosen:
            delta, loss = clients[cid].fit(net, server.params, 3, lr, mu=0.01, device=device)
            deltas.append(delta)
            counts.append(clients[cid].n)
            losses.append(loss)
        server.aggregate(deltas, counts)
        line = f"round {rnd} clients {sorted(chosen.tolist())} loss {np.mean(losses):.3f}"
        if rnd % 2 == 0 or rnd == 1:
            line += f" acc {global_accuracy(net, server, tx, ty):.3f}"
        print(line)


if __name__ == "__main__":
    main()
