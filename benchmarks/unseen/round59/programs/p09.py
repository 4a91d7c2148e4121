import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Two-tower retrieval, in-batch sampled softmax with logQ correction.
USERS, ITEMS, TAGS = 800, 400, 40
DIM, HIST, BATCH = 16, 6, 64
STEPS, EVAL_EVERY = 36, 12


class Interactions:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        r = self.rng
        self.user_vec = r.normal(size=(USERS, 8))
        self.item_vec = r.normal(size=(ITEMS, 8))
        self.item_tags = r.integers(0, TAGS, size=(ITEMS, 3))
        self.item_num = r.gamma(2.0, 20.0, size=(ITEMS, 4)).astype(np.float32)
        self.user_num = r.gamma(1.5, 5.0, size=(USERS, 3)).astype(np.float32)
        pop = 1.0 / np.arange(1, ITEMS + 1) ** 0.7
        self.log_pop = np.log(pop / pop.sum())
        self.log_q = self.log_pop.astype(np.float32)

    def draw(self, users):
        score = self.user_vec[users] @ self.item_vec.T + self.log_pop
        return (score + self.rng.gumbel(size=score.shape)).argmax(1)

    def batch(self, n=BATCH):
        users = self.rng.integers(0, USERS, size=n)
        hist = np.stack([self.draw(users) for _ in range(HIST)], 1)
        pos = self.draw(users)
        return {
            "user": torch.from_numpy(users),
            "user_num": torch.from_numpy(self.user_num[users]),
            "hist": torch.from_numpy(hist),
            "item": torch.from_numpy(pos),
            "log_q": torch.from_numpy(self.log_q[pos]),
        }

    def item_side(self, device):
        return {
            "tags": torch.from_numpy(self.item_tags).to(device),
            "num": torch.from_numpy(self.item_num).to(device),
        }


class Dense(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bn = nn.BatchNorm1d(o, momentum=None)

    def forward(self, x):
        return F.relu(self.bn(self.lin(x)))


class UserTower(nn.Module):
    def __init__(self, item_emb):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.item_emb = item_emb
        self.hidden = Dense(2 * DIM + 3, 32)
        self.out = nn.Linear(32, DIM)

    def forward(self, b):
        hist = self.item_emb(b["hist"]).mean(1)
        x = torch.cat([self.user(b["user"]), hist, torch.log1p(b["user_num"])], 1)
        return F.normalize(self.out(self.hidden(x)), dim=1)


class ItemTower(nn.Module):
    def __init__(self, item_emb):
        super().__init__()
        self.item_emb = item_emb
        self.tag = nn.Embedding(TAGS, DIM)
        self.hidden = Dense(2 * DIM + 4, 32)
        self.out = nn.Linear(32, DIM)

    def forward(self, ids, tags, num):
        x = torch.cat([self.item_emb(ids), self.tag(tags).mean(1), torch.log1p(num)], 1)
        return F.normalize(self.out(self.hidden(x)), dim=1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        emb = nn.Embedding(ITEMS, DIM)
        self.users, self.items = UserTower(emb), ItemTower(emb)
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, b, side):
        u = self.users(b)
        v = self.items(b["item"], side["tags"][b["item"]], side["num"][b["item"]])
        logits = self.log_scale.exp() * u @ v.t() - b["log_q"]
        dup = b["item"][:, None] == b["item"][None, :]
        dup = dup & ~torch.eye(BATCH, dtype=torch.bool, device=u.device)
        return logits.masked_fill(dup, -1e4)


@torch.no_grad()
def recall_at(model, batches, side, device, k=20):
    model.eval()
    catalog = model.items(torch.arange(ITEMS, device=device), side["tags"], side["num"])
    hits = []
    for b in batches:
        top = (model.users(b) @ catalog.t()).topk(k, dim=1).indices
        hits.append((top == b["item"][:, None]).any(1).float().mean())
        xm.mark_step()
    model.train()
    return torch.stack(hits).mean().item()


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    data = Interactions(seed=9)
    side = data.item_side(device)
    to_dev = lambda b: {k: v.to(device) for k, v in b.items()}
    held_out = [to_dev(data.batch()) for _ in range(3)]
    model = TwoTower().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4)
    labels = torch.arange(BATCH).to(device)
    xm.mark_step()

    for step in range(STEPS):
        logits = model(to_dev(data.batch()), side)
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if (step + 1) % EVAL_EVERY == 0:
            rec = recall_at(model, held_out, side, device)
            print(f"step {step + 1} loss {loss.item():.4f} recall@20 {rec:.3f}")


if __name__ == "__main__":
    main()
