"""Two-tower retrieval for a shop, trained on click events exported as JSON lines."""
import io
import json

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_USERS, N_ITEMS, DIM = 120, 200, 16
BATCH, N_NEG, STEPS = 16, 48, 24
NUMERIC = ("price", "stars", "dwell")


def tidy(x):
    """Shortest way to write a number, the way the exporter does."""
    return int(x) if float(x).is_integer() else float(x)


def export_events(n, seed):
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 8, N_USERS)
    out = io.StringIO()
    for _ in range(n):
        u = int(rng.integers(N_USERS))
        item = int((taste[u] * 25 + rng.zipf(1.6) - 1) % N_ITEMS)
        price = rng.integers(5, 60) - (0.01 if rng.random() < 0.05 else 0)
        stars = rng.integers(2, 11) / 2 if rng.random() < 0.15 else rng.integers(1, 6)
        dwell = rng.integers(1, 40) + (0.5 if rng.random() < 0.04 else 0)
        row = {"user": u, "item": item, "price": tidy(price), "stars": tidy(stars), "dwell": tidy(dwell)}
        out.write(json.dumps(row) + "\n")
    out.seek(0)
    return out


class Events(torch.utils.data.Dataset):
    def __init__(self, stream):
        self.rows = [json.loads(line) for line in stream]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    return {k: torch.tensor([r[k] for r in rows]) for k in rows[0]}


class UserTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_USERS, DIM)
        self.context = nn.Linear(len(NUMERIC), DIM)
        self.mlp = nn.Sequential(nn.Linear(2 * DIM, 32), nn.ReLU(), nn.Linear(32, DIM))

    def forward(self, batch):
        feats = [torch.log1p(batch["price"]) / 4, batch["stars"] / 5, torch.log1p(batch["dwell"]) / 4]
        ctx = torch.relu(self.context(torch.stack(feats, dim=1)))
        return F.normalize(self.mlp(torch.cat([self.emb(batch["user"]), ctx], 1)), dim=1)


class ItemTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_ITEMS, DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, ids):
        return F.normalize(self.proj(self.emb(ids)), dim=-1)


class SampledSoftmax(nn.Module):
    """Positive against shared negatives drawn by popularity, with the logQ correction."""

    def __init__(self, popularity, temperature=0.1):
        super().__init__()
        p = (popularity + 1.0) ** 0.75
        self.register_buffer("probs", p / p.sum())
        self.temperature = temperature

    def forward(self, user_vec, items, item_tower):
        neg = torch.multinomial(self.probs, N_NEG, replacement=True)
        clash = (neg[:, None] == items[None, :]).any(dim=1)
        neg = neg[~clash]
        pos_logit = (user_vec * item_tower(items)).sum(1, keepdim=True) / self.temperature
        neg_logit = user_vec @ item_tower(neg).t() / self.temperature
        neg_logit = neg_logit - torch.log(self.probs[neg] * N_NEG)
        logits = torch.cat([pos_logit, neg_logit], dim=1)
        target = torch.zeros(len(items), dtype=torch.long, device=items.device)
        return F.cross_entropy(logits, target)


@torch.no_grad()
def recall_at(model_u, model_i, batch, k=20):
    scores = model_u(batch) @ model_i(torch.arange(N_ITEMS, device=batch["item"].device)).t()
    top = scores.topk(k, dim=1).indices
    return (top == batch["item"][:, None]).any(1).float().mean()


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    data = Events(export_events(BATCH * STEPS, seed=8))
    pop = torch.bincount(torch.tensor([r["item"] for r in data.rows]), minlength=N_ITEMS).float()
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True,
                                         collate_fn=collate)
    users, items = UserTower().to(device), ItemTower().to(device)
    criterion = SampledSoftmax(pop).to(device)
    opt = torch.optim.Adagrad([*users.parameters(), *items.parameters()], lr=0.05)
    probe = {k: v.to(device) for k, v in collate(data.rows[:64]).items()}

    ema = torch.zeros((), device=device)
    for step, batch in enumerate(loader, 1):
        batch = {k: v.to(device) for k, v in batch.items()}
        opt.zero_grad()
        loss = criterion(users(batch), batch["item"], items)
        loss.backward()
        opt.step()
        ema = 0.9 * ema + 0.1 * loss.detach()
        torch_xla.sync()
        if step % 8 == 0:
            hit = recall_at(users, items, probe)
            torch_xla.sync()
            print(f"step {step} loss {ema.item():.3f} recall@20 {hit.item():.3f}")


if __name__ == "__main__":
    main()
