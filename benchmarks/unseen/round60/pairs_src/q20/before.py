"""Federated next-word model: one client's local epochs with a proximal term (FedProx)."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, SEQ, DIM, HEADS = 64, 12, 24, 2
MU = 0.01


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM)
        self.norm2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def heads(self, x):
        b, t, _ = x.shape
        return x.view(b, t, HEADS, DIM // HEADS).transpose(1, 2)

    def forward(self, x):
        b, t, _ = x.shape
        h = self.norm1(x)
        q, k, v = self.heads(self.q(h)), self.heads(self.k(h)), self.heads(self.v(h))
        mask = torch.full((t, t), float("-inf"), device=x.device).triu(1)
        att = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(DIM // HEADS) + mask, dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.relu(self.up(self.norm2(x))))


class WordModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(SEQ, DIM)
        self.block = Block()
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.block(self.tok(ids) + self.pos(pos))
        return self.head(self.norm(x))


def client_data(client, n_batches, batch_size=4):
    g = torch.Generator().manual_seed(1000 + client)
    for _ in range(n_batches):
        yield torch.randint(0, VOCAB, (batch_size, SEQ + 1), generator=g)


def local_update(model, batches, device, lr=0.1):
    anchor = [p.detach().clone() for p in model.parameters()]
    losses = []
    for ids in batches:
        ids = ids.to(device)
        for p in model.parameters():
            p.grad = None
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        prox = 0.0
        for p, a in zip(model.parameters(), anchor):
            prox = prox + ((p - a) ** 2).sum()
        loss = loss + 0.5 * MU * prox
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-lr)
        torch_xla.sync()
        losses.append(loss.item())
    return losses


def aggregate(server, clients, sizes):
    total = sum(sizes)
    with torch.no_grad():
        for group in zip(server.parameters(), *(c.parameters() for c in clients)):
            group[0].copy_(sum(p * (n / total) for p, n in zip(group[1:], sizes)))


def main(rounds=1, n_clients=2):
    torch.manual_seed(0)
    device = torch_xla.device()
    server = WordModel().to(device)
    for r in range(rounds):
        clients, sizes = [], []
        for c in range(n_clients):
            local = copy.deepcopy(server)
            losses = local_update(local, client_data(c, 4), device)
            print(r, c, [round(x, 5) for x in losses])
            clients.append(local)
            sizes.append(4)
        aggregate(server, clients, sizes)
        torch_xla.sync()


if __name__ == "__main__":
    main()
