"""Multi-task toxicity-style prediction on small molecular graphs with a dense
message-passing network. Most assays were run for only some of the molecules."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from sklearn.metrics import roc_auc_score
from torch.utils.data import DataLoader, TensorDataset

SEED = 13
ATOMS = ["C", "N", "O", "F", "S", "Cl"]
BONDS = 3
MAX_ATOMS = 12
ASSAYS = {"NR-AR": 0.9, "NR-AhR": 0.15, "NR-ER": 0.5, "SR-ARE": 0.08, "SR-HSE": 0.12,
          "SR-MMP": 0.1, "SR-p53": 0.06}
BATCH, EPOCHS = 8, 2


def random_molecule(rng):
    n = int(rng.integers(5, MAX_ATOMS + 1))
    kinds = rng.choice(len(ATOMS), n, p=[0.55, 0.15, 0.15, 0.05, 0.06, 0.04])
    adj = np.zeros((BONDS, MAX_ATOMS, MAX_ATOMS), dtype=np.float32)
    for i in range(1, n):
        j = int(rng.integers(max(0, i - 3), i))
        order = int(rng.choice(BONDS, p=[0.75, 0.2, 0.05]))
        adj[order, i, j] = adj[order, j, i] = 1.0
    if n > 6:
        adj[0, 0, 5] = adj[0, 5, 0] = 1.0
    return kinds, adj, n


def featurize(kinds, adj, n):
    x = np.zeros((MAX_ATOMS, len(ATOMS) + 2), dtype=np.float32)
    x[np.arange(n), kinds] = 1.0
    x[:n, -2] = adj.sum((0, 1))[:n] / 4.0
    x[:n, -1] = 1.0
    return x


def make_dataset(n, seed):
    rng = np.random.default_rng(seed)
    proj = np.random.default_rng(77).normal(0, 1, (len(ATOMS) + BONDS, len(ASSAYS)))
    xs, adjs, ys = [], [], []
    for _ in range(n):
        kinds, adj, size = random_molecule(rng)
        x = featurize(kinds, adj, size)
        desc = np.concatenate([x[:, :len(ATOMS)].sum(0), adj.sum((1, 2)) / 2]) / size
        logit = 4.0 * (desc - np.array([.5, .15, .15, .05, .05, .05, .7, .2, .05])) @ proj
        y = (rng.random(len(ASSAYS)) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        y[rng.random(len(ASSAYS)) > np.array(list(ASSAYS.values()))] = np.nan
        xs.append(x)
        adjs.append(adj)
        ys.append(y)
    return TensorDataset(*(torch.from_numpy(np.stack(a)) for a in (xs, adjs, ys)))


class RelationalLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rel = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(BONDS))
        self.own = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, adj):
        msg = self.own(h)
        for b, lin in enumerate(self.rel):
            msg = msg + adj[:, b] @ lin(h)
        return self.norm(h + F.relu(msg))


class MultiAssayNet(nn.Module):
    def __init__(self, dim=24, depth=2):
        super().__init__()
        self.embed = nn.Linear(len(ATOMS) + 2, dim)
        self.layers = nn.ModuleList(RelationalLayer(dim) for _ in range(depth))
        self.gate = nn.Linear(dim, 1)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 12), nn.ReLU(), nn.Linear(12, 1)) for _ in ASSAYS)

    def forward(self, x, adj):
        present = x[..., -1:]
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, adj) * present
        pooled = (torch.sigmoid(self.gate(h)) * h * present).sum(1)
        return [head(pooled).squeeze(-1) for head in self.heads]


def multitask_loss(logits, y, device):
    """Mean over assays of the mean over the molecules that were measured."""
    terms = []
    for t, logit in enumerate(logits):
        known = ~torch.isnan(y[:, t])
        if not known.any():
            continue
        target = torch.nan_to_num(y[:, t]).to(device)
        w = known.float().to(device)
        bce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
        terms.append((bce * w).sum() / w.sum())
    return torch.stack(terms).mean()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    probs, labels = [], []
    for x, adj, y in loader:
        logits = model(x.to(device), adj.to(device))
        probs.append(torch.sigmoid(torch.stack(logits, 1)).cpu().numpy())
        labels.append(y.numpy())
    model.train()
    probs, labels = np.concatenate(probs), np.concatenate(labels)
    aucs = []
    for t in range(len(ASSAYS)):
        ok = ~np.isnan(labels[:, t])
        if len(np.unique(labels[ok, t])) == 2:
            aucs.append(roc_auc_score(labels[ok, t], probs[ok, t]))
    return float(np.mean(aucs))


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    train = DataLoader(make_dataset(160, SEED), BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(make_dataset(64, SEED + 1), 32)

    model = MultiAssayNet().to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=EPOCHS * len(train))

    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        for x, adj, y in train:
            logits = model(x.to(device), adj.to(device))
            loss = multitask_loss(logits, y, device)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
            torch_xla.sync()
        print(f"epoch {epoch} loss {total.item() / len(train):.4f} "
              f"valid AUC {evaluate(model, valid, device):.3f}")


if __name__ == "__main__":
    main()
