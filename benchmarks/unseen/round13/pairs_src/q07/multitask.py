import random
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ResidualMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class TabularMultiTask(nn.Module):
    def __init__(self, n_num, cards, dim=16, depth=2):
        super().__init__()
        self.num = nn.Linear(n_num, dim)
        self.cat = nn.ModuleList([nn.Embedding(c, dim) for c in cards])
        self.trunk = nn.Sequential(*[ResidualMLP(dim, 2 * dim) for _ in range(depth)])
        self.heads = nn.ModuleDict({
            "churn": nn.Linear(dim, 1),
            "segment": nn.Linear(dim, 4),
            "spend": nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1)),
        })
        self.log_var = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in self.heads})

    def features(self, num, cat):
        h = self.num(num)
        for i, emb in enumerate(self.cat):
            h = h + emb(cat[:, i])
        return self.trunk(h)


LOSSES = OrderedDict(
    churn=lambda out, y: F.binary_cross_entropy_with_logits(out.squeeze(-1), y),
    segment=lambda out, y: F.cross_entropy(out, y),
    spend=lambda out, y: F.l1_loss(out.squeeze(-1), y),
)


def make_batch(n, n_num, cards):
    num = torch.randn(n, n_num)
    cat = torch.stack([torch.randint(0, c, (n,)) for c in cards], dim=1)
    score = num[:, 0] - num[:, 1] + cat[:, 0].float() * 0.2
    return num, cat, {
        "churn": (score > 0).float(),
        "segment": (cat[:, 1] + (num[:, 2] > 0).long()) % 4,
        "spend": score.abs().log1p(),
    }


def weighted(model, name, loss):
    lv = model.log_var[name]
    return torch.exp(-lv) * loss + 0.5 * lv


def train_step(model, opt, batch, task_names):
    num, cat, targets = batch
    opt.zero_grad(set_to_none=True)
    h = model.features(num, cat)
    total, parts = None, {}
    for name in task_names:
        task_loss = LOSSES[name](model.heads[name](h), targets[name])
        parts[name] = task_loss.detach()
        term = weighted(model, name, task_loss)
        total = term if total is None else total + term
    total.backward()
    opt.step()
    return parts


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()
    cards = [7, 5]
    model = TabularMultiTask(6, cards).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    tasks = list(LOSSES)
    for step in range(20):
        num, cat, targets = make_batch(24, 6, cards)
        batch = (num.to(device), cat.to(device), {k: v.to(device) for k, v in targets.items()})
        random.shuffle(tasks)
        parts = train_step(model, opt, batch, tasks)
        xm.mark_step()
        if step % 5 == 4:
            print(step + 1, " ".join(f"{k}={parts[k].item():.3f}" for k in sorted(parts)))


if __name__ == "__main__":
    main()
