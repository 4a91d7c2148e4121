"""Two-tower retrieval for podcast episodes: in-batch softmax with logQ correction (torch_xla)."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, HIST, USERS, ITEMS, DIM, OUT_DIM = 10, 4, 15, 20, 6, 8
DUMP_AT = 3
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


class Tower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 12)
        self.fc2 = nn.Linear(12, OUT_DIM)

    def forward(self, x):
        return F.normalize(self.fc2(F.gelu(self.fc1(x), approximate="tanh")), dim=-1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user_emb = nn.Embedding(USERS, DIM)
        self.item_emb = nn.Embedding(ITEMS, DIM)
        self.user_tower = Tower(2 * DIM)
        self.item_tower = Tower(DIM + 1)
        self.log_tau = nn.Parameter(torch.tensor(-1.5))

    def forward(self, user, hist, hist_mask, item, age):
        h = self.item_emb(hist) * hist_mask.unsqueeze(-1)
        h = h.sum(1) / hist_mask.sum(1, keepdim=True).clamp(min=1.0)
        u = self.user_tower(torch.cat([self.user_emb(user), h], dim=-1))
        v = self.item_tower(torch.cat([self.item_emb(item), age.log1p().unsqueeze(-1)], dim=-1))
        return u, v


class LogQ:
    """Streaming estimate of the items' sampling probability (mean gap between hits)."""

    def __init__(self, device, rate=0.1):
        self.last = torch.zeros(ITEMS, device=device)
        self.gap = torch.full((ITEMS,), 5.0, device=device)
        self.rate = rate

    def update(self, item, now):
        gap = (1 - self.rate) * self.gap[item] + self.rate * (now - self.last[item])
        self.gap = self.gap.index_copy(0, item, gap)
        self.last = self.last.index_copy(0, item, now.expand_as(gap))
        return -torch.log(self.gap[item].clamp(min=1.0))


def retrieval_loss(u, v, log_tau, logq, item, weight):
    scores = u @ v.t()
    logits = scores / log_tau.exp()
    logits = logits - logq.unsqueeze(0)
    same = item.unsqueeze(0) == item.unsqueeze(1)
    eye = torch.eye(u.shape[0], dtype=torch.bool, device=u.device)
    logits = logits.masked_fill(same & ~eye, -1e9)
    nll = -torch.diagonal(F.log_softmax(logits, dim=1))
    return (nll * weight).sum() / weight.sum()


def live(model, opt, logq, extra):
    out = list(extra) + [logq.gap, logq.last]
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["sum"]]
    return out


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    model = TwoTower().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, initial_accumulator_value=0.1)
    logq = LogQ(device)
    gen = torch.Generator().manual_seed(17)
    for step in range(6):
        user = torch.randint(USERS, (BATCH,), generator=gen).to(device)
        hist = torch.randint(ITEMS, (BATCH, HIST), generator=gen).to(device)
        hist_mask = (torch.rand(BATCH, HIST, generator=gen) > 0.3).float().to(device)
        item = torch.randint(ITEMS, (BATCH,), generator=gen).to(device)
        age = (30 * torch.rand(BATCH, generator=gen)).to(device)
        weight = torch.rand(BATCH, generator=gen).to(device)
        now = torch.tensor(float(step + 1)).to(device)

        opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            lq = logq.update(item, now)
        u, v = model(user, hist, hist_mask, item, age)
        loss = retrieval_loss(u, v, model.log_tau, lq, item, weight)
        loss.backward()
        opt.step()
        hits = ((u @ v.t()).argmax(1) == torch.arange(BATCH, device=device)).float().mean()
        extra = [loss.detach(), hits.detach()]
        if step == DUMP_AT:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, logq, extra))
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, *[f"{e.item():.6f}" for e in extra])


if __name__ == "__main__":
    main()
