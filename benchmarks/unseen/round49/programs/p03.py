"""Multi-task assay prediction on small molecules with a dense GIN.

Not every molecule was measured in every assay, unmeasured entries are NaN.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_ATOMS = 12
N_ELEMENTS = 9
N_TASKS = 8
EPOCHS = 4
BATCH = 16


class Molecules(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.atoms = np.zeros((n, N_ATOMS), dtype=np.int64)
        self.adj = np.zeros((n, N_ATOMS, N_ATOMS), dtype=np.float32)
        self.y = np.zeros((n, N_TASKS), dtype=np.float32)
        proj = rng.normal(size=(N_ELEMENTS + 1, N_TASKS))
        measured = rng.uniform(0.2, 0.9, size=N_TASKS)
        for i in range(n):
            k = rng.integers(5, N_ATOMS + 1)
            self.atoms[i, :k] = rng.integers(1, N_ELEMENTS + 1, size=k)
            for a in range(1, k):
                b = rng.integers(0, a)
                self.adj[i, a, b] = self.adj[i, b, a] = 1.0
            score = proj[self.atoms[i, :k]].mean(0) + 0.2 * rng.normal(size=N_TASKS)
            self.y[i] = (score > 0).astype(np.float32)
            self.y[i, rng.uniform(size=N_TASKS) > measured] = np.nan

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.atoms[i], self.adj[i], self.y[i]


class GINLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, h, adj, present):
        out = self.mlp((1 + self.eps) * h + adj @ h)
        return (h + F.relu(out)) * present


class AssayNet(nn.Module):
    def __init__(self, dim=16, depth=1):
        super().__init__()
        self.embed = nn.Embedding(N_ELEMENTS + 1, dim, padding_idx=0)
        self.layers = nn.ModuleList(GINLayer(dim) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, N_TASKS))

    def forward(self, atoms, adj):
        present = (atoms > 0).unsqueeze(-1).float()
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, adj, present)
        count = present.sum(1)
        mean = h.sum(1) / count
        return self.head(torch.cat([mean, h.sum(1) / 10.0], dim=-1))


def assay_loss(logits, target, task_weight):
    valid = ~torch.isnan(target)
    weight = task_weight.expand_as(target)
    loss = F.binary_cross_entropy_with_logits(logits[valid], target[valid], weight=weight[valid])
    return loss


def task_weights(dataset):
    measured = (~np.isnan(dataset.y)).mean(0)
    w = 1.0 / np.sqrt(measured)
    return torch.tensor(w / w.mean(), dtype=torch.float32)


def main():
    torch.manual_seed(5)
    device = torch_xla.device()

    data = Molecules(96, seed=5)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True)
    weights = task_weights(data).to(device)

    model = AssayNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    total = EPOCHS * len(loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=total)

    for epoch in range(EPOCHS):
        model.train()
        epoch_loss = torch.zeros((), device=device)
        for atoms, adj, y in loader:
            atoms, adj, y = atoms.to(device), adj.to(device), y.to(device)
            opt.zero_grad()
            logits = model(atoms, adj)
            loss = assay_loss(logits, y, weights)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            sched.step()
            epoch_loss += loss.detach()
            xm.mark_step()
        print(f"epoch {epoch}  loss {epoch_loss.item() / len(loader):.4f}  lr {sched.get_last_lr()[0]:.2e}")

    state = {k: v.cpu() for k, v in model.state_dict().items()}
    print("parameters:", sum(v.numel() for v in state.values()))


if __name__ == "__main__":
    main()
