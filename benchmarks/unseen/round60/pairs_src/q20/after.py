"""Federated next-word model: one client's local epochs with a proximal term (FedProx)."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, SEQ, DIM, HEADS = 64, 12, 24, 2
MU = 0.01


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(b, t, DIM))


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(DIM, 2 * DIM), nn.ReLU(), nn.Linear(2 * DIM, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = CausalSelfAttention()
        self.ffn = FeedForward()
        self.norm1 = nn.LayerNorm(DIM)
        self.norm2 = nn.LayerNorm(DIM)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


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


def proximal(params, anchor):
    return torch.stack([(p - a).square().sum() for p, a in zip(params, anchor)]).sum()


def language_loss(model, ids):
    log_probs = F.log_softmax(model(ids[:, :-1]), dim=-1)
    return F.nll_loss(log_probs.flatten(0, 1), ids[:, 1:].flatten())


class Client:
    def __init__(self, server, device, lr=0.1):
        self.model = copy.deepcopy(server)
        self.anchor = [p.detach().clone() for p in server.parameters()]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.device = device

    def fit(self, batches):
        losses = []
        for ids in batches:
            ids = ids.to(self.device)
            self.optimizer.zero_grad()
            loss = language_loss(self.model, ids) + MU / 2 * proximal(self.model.parameters(), self.anchor)
            loss.backward()
            self.optimizer.step()
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
            client = Client(server, device)
            losses = client.fit(client_data(c, 4))
            print(r, c, [round(x, 5) for x in losses])
            clients.append(client.model)
            sizes.append(4)
        aggregate(server, clients, sizes)
        torch_xla.sync()


if __name__ == "__main__":
    main()
