"""Two-tower retrieval model with in-batch softmax."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Tower(nn.Module):
    def __init__(self, vocab, feats, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mlp = nn.Sequential(nn.Linear(dim + feats, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, ids, feats):
        return F.normalize(self.mlp(torch.cat([self.emb(ids), feats], -1)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, users=100, items=60):
        super().__init__()
        self.user = Tower(users, 5)
        self.item = Tower(items, 3)
        self.temp = nn.Parameter(torch.tensor(2.0))

    def forward(self, b):
        u = self.user(b["uid"], b["ufeat"])
        v = self.item(b["iid"], b["ifeat"])
        return u @ v.t() * self.temp.exp()


def make_batch(n):
    return {"uid": torch.randint(0, 100, (n,)), "ufeat": torch.randn(n, 5),
            "iid": torch.randint(0, 60, (n,)), "ifeat": torch.randn(n, 3)}


def train(steps=6, n=16):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = TwoTower().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step in range(steps):
        batch = {k: v.to(device) for k, v in make_batch(n).items()}
        target = torch.arange(n).to(device)
        loss = F.cross_entropy(model(batch), target)
        loss.backward()
        opt.step()
        opt.zero_grad()
        torch_xla.sync()
        if step % 3 == 0:
            print("step", step, "loss", loss.item())


train()
