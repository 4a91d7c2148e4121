"""Federated credit scoring: FedProx over a dozen regional branches, tabular features."""
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

SEED = 11
N_NUM, N_CAT, CARD = 14, 3, 9
ROUNDS, PER_ROUND, LOCAL_EPOCHS = 7, 3, 1
BATCH = 32
PROX_MU = 0.01


class Scorer(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(CARD, 6) for _ in range(N_CAT))
        self.norm = nn.LayerNorm(N_NUM)
        self.body = nn.Sequential(
            nn.Linear(N_NUM + 6 * N_CAT, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, 1),
        )

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.emb)]
        return self.body(torch.cat([self.norm(num), *e], dim=1)).squeeze(1)


def make_branch(rng, shift):
    """One branch's book of loans; branches differ in size and in their applicants."""
    n = int(rng.integers(45, 118))
    num = rng.normal(shift, 1.0, size=(n, N_NUM)).astype(np.float32)
    cat = rng.integers(0, CARD, size=(n, N_CAT))
    risk = num[:, :4].sum(1) * 0.7 - 0.3 * (cat[:, 0] > 5) + rng.normal(0, 0.5, n)
    y = (risk > risk.mean()).astype(np.float32)
    return TensorDataset(torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y))


class Branch:
    def __init__(self, name, dataset):
        self.name = name
        self.dataset = dataset
        self.loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)

    def __len__(self):
        return len(self.dataset)

    def fit(self, model, anchor, device, lr):
        opt = torch.optim.SGD(model.parameters(), lr=lr)
        model.train()
        loss_sum = torch.zeros((), device=device)
        n_batches = 0
        for _ in range(LOCAL_EPOCHS):
            for num, cat, y in self.loader:
                num, cat, y = num.to(device), cat.to(device), y.to(device)
                opt.zero_grad()
                loss = F.binary_cross_entropy_with_logits(model(num, cat), y)
                prox = sum(((p - a) ** 2).sum() for p, a in zip(model.parameters(), anchor))
                (loss + 0.5 * PROX_MU * prox).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                opt.step()
                loss_sum = loss_sum + loss.detach()
                n_batches += 1
                xm.mark_step()
        return loss_sum / n_batches, n_batches


def average(states, sizes):
    total = float(sum(sizes))
    out = {}
    for key in states[0]:
        out[key] = sum(s[key] * (n / total) for s, n in zip(states, sizes))
    return out


@torch.no_grad()
def evaluate(model, data, device):
    model.eval()
    hits = 0
    num, cat, y = (t.to(device) for t in data)
    for lo in range(0, 256, 64):
        logit = model(num[lo:lo + 64], cat[lo:lo + 64])
        hits = hits + ((logit > 0).float() == y[lo:lo + 64]).sum()
    xm.mark_step()
    return hits.item() / 256


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = xm.xla_device()

    branches = [Branch(f"branch-{i:02d}", make_branch(rng, 0.2 * (i % 4))) for i in range(12)]
    held_out = make_branch(rng, 0.3)
    while len(held_out) < 256:
        held_out = TensorDataset(*(torch.cat([a, a]) for a in held_out.tensors))
    held_out = [t[:256] for t in held_out.tensors]

    server = Scorer().to(device)
    local = copy.deepcopy(server)
    step = 0
    for rnd in range(ROUNDS):
        chosen = random.sample(branches, PER_ROUND)
        start = {k: v.detach().clone() for k, v in server.state_dict().items()}
        anchor = [p.detach() for p in server.parameters()]
        states, losses = [], []
        for br in chosen:
            local.load_state_dict(start)
            loss, done = br.fit(local, anchor, device, lr=0.1 * 0.9 ** rnd)
            states.append({k: v.detach().clone() for k, v in local.state_dict().items()})
            losses.append(loss)
            step += done
        server.load_state_dict(average(states, [len(b) for b in chosen]))
        xm.mark_step()
        acc = evaluate(server, held_out, device)
        mean_loss = sum(l.item() for l in losses) / PER_ROUND
        print(f"round {rnd} step {step} loss {mean_loss:.4f} acc {acc:.3f} "
              f"({', '.join(b.name for b in chosen)})")


if __name__ == "__main__":
    main()
