import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_USERS, N_ITEMS, DIM = 50, 80, 8


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(N_USERS, DIM)
        self.items = nn.Embedding(N_ITEMS, DIM)
        self.item_bias = nn.Embedding(N_ITEMS, 1)

    def forward(self, user_ids, item_ids):
        candidates, positive = torch.unique(item_ids, return_inverse=True)
        u = self.users(user_ids)
        scores = u @ self.items(candidates).t() + self.item_bias(candidates).t()
        return F.cross_entropy(scores, positive)


def interactions(n, gen):
    for _ in range(n):
        yield (torch.randint(0, N_USERS, (16,), generator=gen),
               torch.randint(0, N_ITEMS, (16,), generator=gen))


def train(steps=9):
    gen = torch.Generator().manual_seed(2)
    device = xm.xla_device()
    model = TwoTower().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for users, items in interactions(steps, gen):
        optimizer.zero_grad()
        loss = model(users.to(device), items.to(device))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print("final", loss.item())


train()
