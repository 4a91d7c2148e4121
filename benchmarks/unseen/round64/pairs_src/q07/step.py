"""Click-through-rate model with attention over the user's click history (DIN), torch_xla."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

LOG_EVERY = 4
N_ITEMS, N_CATS, N_USERS = 500, 24, 200


class ClickLog(Dataset):
    def __init__(self, n, seed=7):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            hist = [rng.randrange(1, N_ITEMS) for _ in range(rng.randint(3, 30))]
            self.rows.append((rng.randrange(N_USERS), rng.randrange(1, N_ITEMS), hist,
                              [rng.random() for _ in range(6)], float(rng.random() < 0.2)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    users, items, hists, dense, clicks = zip(*rows)
    return {
        "user": torch.tensor(users),
        "item": torch.tensor(items),
        "hist": pad_sequence([torch.tensor(h) for h in hists], batch_first=True),
        "dense": torch.tensor(dense),
        "click": torch.tensor(clicks),
    }


class TargetAttention(nn.Module):
    def __init__(self, dim, hidden=16):
        super().__init__()
        self.fc1 = nn.Linear(4 * dim, hidden)
        self.act = nn.PReLU()
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, target, hist, mask):
        t = target.unsqueeze(1).expand_as(hist)
        feats = torch.cat([t, hist, t - hist, t * hist], dim=-1)
        score = self.fc2(self.act(self.fc1(feats))).squeeze(-1)
        score = score.masked_fill(~mask, -1e9)
        return torch.bmm(score.softmax(dim=1).unsqueeze(1), hist).squeeze(1)


class DIN(nn.Module):
    def __init__(self, dim=8, dense=6):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim)
        self.item = nn.Embedding(N_ITEMS, dim, padding_idx=0)
        self.cat = nn.Embedding(N_CATS, dim)
        self.attn = TargetAttention(2 * dim)
        self.dense_bn = nn.BatchNorm1d(dense)
        self.mlp = nn.Sequential(
            nn.Linear(5 * dim + dense, 32), nn.PReLU(),
            nn.Linear(32, 16), nn.PReLU(),
            nn.Linear(16, 1),
        )

    def embed_item(self, ids):
        return torch.cat([self.item(ids), self.cat(ids % N_CATS)], dim=-1)

    def forward(self, batch):
        target = self.embed_item(batch["item"])
        hist = self.embed_item(batch["hist"])
        interest = self.attn(target, hist, batch["hist"] > 0)
        x = torch.cat([self.user(batch["user"]), target, interest, self.dense_bn(batch["dense"])], dim=-1)
        return self.mlp(x).squeeze(-1)


def train(steps=14, batch_size=8):
    torch.manual_seed(3)
    device = torch_xla.device()
    model = DIN().to(device).train()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, weight_decay=1e-6)
    pos_weight = torch.tensor(4.0, device=device)
    loader = DataLoader(ClickLog(steps * batch_size), batch_size=batch_size, collate_fn=collate)
    torch_xla.sync()

    running_loss = 0.0
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        optimizer.zero_grad()
        logits = model(batch)
        loss = F.binary_cross_entropy_with_logits(logits, batch["click"], pos_weight=pos_weight)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        running_loss += loss.detach()
        torch_xla.sync()
        if (step + 1) % LOG_EVERY == 0:
            print(f"step {step + 1} loss {float(running_loss) / LOG_EVERY:.4f}", flush=True)
            running_loss = 0.0


if __name__ == "__main__":
    train()
