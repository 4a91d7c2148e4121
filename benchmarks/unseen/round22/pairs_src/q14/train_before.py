"""Two-tower retrieval model with in-batch softmax and sampling correction."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_USERS, N_ITEMS, N_GENRES = 50, 40, 7
EMB, HID, OUT = 8, 16, 8
BATCH = 16


class UserTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_USERS, EMB)
        self.age = nn.Linear(1, EMB)
        self.fc1 = nn.Linear(2 * EMB, HID)
        self.fc2 = nn.Linear(HID, OUT)

    def forward(self, user, age):
        h = torch.cat([self.emb(user), self.age(age)], dim=1)
        return self.fc2(torch.tanh(self.fc1(h)))


class ItemTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_ITEMS, EMB)
        self.genre = nn.Embedding(N_GENRES, EMB)
        self.fc1 = nn.Linear(EMB, HID)
        self.fc2 = nn.Linear(HID, OUT)

    def forward(self, item, genre):
        h = self.emb(item) + self.genre(genre)
        return self.fc2(torch.tanh(self.fc1(h)))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user_tower = UserTower()
        self.item_tower = ItemTower()
        self.log_temp = nn.Parameter(torch.zeros(()))

    def forward(self, user, age, item, genre, log_q):
        u = self.user_tower(user, age)
        v = self.item_tower(item, genre)
        u = u / u.norm(dim=1, keepdim=True)
        v = v / v.norm(dim=1, keepdim=True)
        logits = torch.matmul(u, v.t()) * torch.exp(self.log_temp)
        return logits - log_q


def make_batch(gen):
    user = torch.randint(0, N_USERS, (BATCH,), generator=gen)
    age = torch.rand(BATCH, 1, generator=gen)
    item = torch.randint(0, N_ITEMS, (BATCH,), generator=gen)
    genre = torch.randint(0, N_GENRES, (BATCH,), generator=gen)
    log_q = torch.log(torch.rand(BATCH, generator=gen) * 0.1 + 0.01)
    return user, age, item, genre, log_q


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    model = TwoTower()
    model.to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    labels = torch.arange(BATCH, device=device)
    torch_xla.sync()
    for step in range(3):
        batch = [t.to(device) for t in make_batch(gen)]
        optimizer.zero_grad()
        logits = model(*batch)
        loss = F.cross_entropy(logits, labels)
        recall = (logits.argmax(dim=1) == labels).float().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"{step}: loss={loss.item():.6f} recall@1={recall.item():.3f}")
    return model


if __name__ == "__main__":
    model = main()
