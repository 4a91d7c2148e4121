"""Two-tower retrieval with in-batch negatives, hard-negative mining and per-example loss memory."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_xla
import torch_xla.core.xla_model as xm

HP = {
    "users": 200, "items": 150, "dim": 16, "batch": 32, "log_size": 1536,
    "epochs": 1, "neg_start": 4, "neg_end": 24, "lr": 5e-3, "memory_decay": 0.7,
}


def interaction_log(rng):
    u_lat = rng.randn(HP["users"], 4)
    i_lat = rng.randn(HP["items"], 4)
    users = rng.randint(0, HP["users"], HP["log_size"])
    score = u_lat[users] @ i_lat.T + rng.gumbel(size=(HP["log_size"], HP["items"]))
    items = score.argmax(1)
    return torch.from_numpy(users), torch.from_numpy(items)


class Tower(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.emb(ids)), dim=-1)


class NegativeSchedule:
    """From a few hard negatives to most of the batch, linearly in training progress."""

    def __init__(self, start, end, total):
        self.start, self.end, self.total = start, end, total

    def __call__(self, step):
        frac = step / max(1, self.total - 1)
        return int(round(self.start + (self.end - self.start) * frac))


class LossMemory:
    """Remembers a decayed loss for every row of the log, to weigh rows that stay hard."""

    def __init__(self, size, decay, device):
        self.table = torch.full((size,), 1.0, device=device)
        self.decay = decay

    def weights(self, rows):
        w = self.table.index_select(0, rows)
        return w / w.mean()

    def update(self, rows, losses):
        old = self.table.index_select(0, rows)
        new = self.decay * old + (1 - self.decay) * losses
        self.table = self.table.index_copy(0, rows, new)


def retrieval_loss(u, v, n_neg, temperature=0.1):
    sim = u @ v.t() / temperature
    n = sim.size(0)
    eye = torch.eye(n, dtype=torch.bool, device=sim.device)
    pos = sim.diagonal()
    neg = sim.masked_fill(eye, -1e4)
    hard, _ = neg.topk(n_neg, dim=1)
    logits = torch.cat([pos[:, None], hard], dim=1)
    return -F.log_softmax(logits, dim=1)[:, 0]


def train():
    torch.manual_seed(7)
    device = xm.xla_device()
    users, items = interaction_log(np.random.RandomState(7))
    user_tower = Tower(HP["users"], HP["dim"]).to(device)
    item_tower = Tower(HP["items"], HP["dim"]).to(device)
    params = list(user_tower.parameters()) + list(item_tower.parameters())
    opt = torch.optim.Adagrad(params, lr=HP["lr"])

    bs = HP["batch"]
    per_epoch = HP["log_size"] // bs
    total = HP["epochs"] * per_epoch
    schedule = NegativeSchedule(HP["neg_start"], HP["neg_end"], total)
    memory = LossMemory(HP["log_size"], HP["memory_decay"], device)

    step = 0
    for epoch in range(HP["epochs"]):
        for b in range(per_epoch):
            lo, hi = b * bs, (b + 1) * bs
            u = users[lo:hi].to(device)
            i = items[lo:hi].to(device)
            rows = torch.arange(lo, hi, device=device)

            opt.zero_grad()
            n_neg = schedule(step)
            losses = retrieval_loss(user_tower(u), item_tower(i), n_neg)
            loss = (losses * memory.weights(rows)).mean()
            loss.backward()
            xm.optimizer_step(opt, barrier=False)
            memory.update(rows, losses.detach())
            xm.mark_step()

            if step % 12 == 0:
                print("step", step, "n_neg", n_neg, "loss", round(loss.item(), 4))
            step += 1

    with torch.no_grad():
        all_u = user_tower(torch.arange(HP["users"], device=device))
        all_i = item_tower(torch.arange(HP["items"], device=device))
        top = (all_u @ all_i.t()).topk(10, dim=1).indices
    xm.mark_step()
    top = top.cpu()
    hit = (top[users] == items[:, None]).any(1).float().mean()
    print("recall@10 on the log: %.3f" % hit.item())


if __name__ == "__main__":
    train()
