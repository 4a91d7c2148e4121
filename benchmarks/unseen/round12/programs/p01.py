"""FedAvg with a small convnet on non-iid clients (synthetic 12x12 glyphs)."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--clients", type=int, default=12)
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--per-round", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--mu", type=float, default=0.01)
    return p.parse_args([])


class GlyphNet(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.fc1 = nn.Linear(16 * 36, 32)
        self.fc2 = nn.Linear(32, classes)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.norm(self.conv2(x)))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(x)


def make_clients(n_clients, batch_size, classes=6, seed=3):
    rng = np.random.default_rng(seed)
    protos = rng.normal(size=(classes, 1, 12, 12)).astype(np.float32)
    clients = []
    for _ in range(n_clients):
        mix = rng.dirichlet(np.full(classes, 0.5))
        count = int(np.clip(rng.lognormal(4.2, 0.6), 20, 150))
        y = rng.choice(classes, size=count, p=mix)
        x = protos[y] + 0.7 * rng.normal(size=(count, 1, 12, 12)).astype(np.float32)
        clients.append((torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)))
    return clients


def batches(client, batch_size, generator):
    x, y = client
    order = torch.randperm(len(y), generator=generator)
    for i in range(0, len(y) - batch_size + 1, batch_size):
        idx = order[i:i + batch_size]
        yield x[idx], y[idx]


def local_update(global_model, client, args, device, generator):
    model = copy.deepcopy(global_model)
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    anchor = [p.detach() for p in global_model.parameters()]
    losses = []
    for x, y in batches(client, args.batch_size, generator):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        prox = sum((p - a).pow(2).sum() for p, a in zip(model.parameters(), anchor))
        loss = loss + 0.5 * args.mu * prox
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    torch_xla.sync()
    return model, losses[-1]


def average_into(global_model, models, weights):
    with torch.no_grad():
        total = float(sum(weights))
        for name, p in global_model.named_parameters():
            acc = torch.zeros_like(p)
            for m, w in zip(models, weights):
                acc += (w / total) * m.get_parameter(name)
            p.copy_(acc)
    torch_xla.sync()


def main():
    args = parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(11)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    clients = make_clients(args.clients, args.batch_size)
    model = GlyphNet().to(device)

    for rnd in range(args.rounds):
        chosen = rng.choice(args.clients, size=args.per_round, replace=False)
        models, sizes, last = [], [], []
        for c in chosen:
            m, loss = local_update(model, clients[c], args, device, gen)
            models.append(m)
            sizes.append(len(clients[c][1]))
            last.append(loss)
        average_into(model, models, sizes)
        mean = np.mean([l.item() for l in last])
        print(f"round {rnd}: clients {sorted(int(c) for c in chosen)} loss {mean:.4f}")


if __name__ == "__main__":
    main()
