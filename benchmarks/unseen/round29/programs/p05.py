"""Message passing network on toy molecules with many sparsely labelled assays."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

ASSAYS = ["NR-AR", "NR-ER", "SR-ARE", "SR-MMP", "SR-p53", "hERG", "CYP3A4"]
COVERAGE = [0.95, 0.30, 0.18, 0.12, 0.10, 0.08, 0.06]
MAX_ATOMS, N_ATOM_TYPES = 12, 8
BATCH = 16


def toy_molecules(n, seed):
    rng = np.random.default_rng(seed)
    atoms = rng.integers(0, N_ATOM_TYPES, (n, MAX_ATOMS))
    sizes = rng.integers(5, MAX_ATOMS + 1, n)
    mask = np.arange(MAX_ATOMS)[None] < sizes[:, None]
    adj = np.zeros((n, MAX_ATOMS, MAX_ATOMS), np.float32)
    for i in range(n):
        for a in range(1, sizes[i]):
            b = rng.integers(0, a)
            adj[i, a, b] = adj[i, b, a] = 1.0
    counts = np.stack([((atoms == k) & mask).sum(1) for k in range(N_ATOM_TYPES)], 1)
    w = rng.normal(0, 1, (N_ATOM_TYPES, len(ASSAYS)))
    y = (counts @ w > np.median(counts @ w, axis=0)).astype(np.float32)
    y[rng.random(y.shape) > np.array(COVERAGE)] = np.nan
    return (torch.from_numpy(atoms), torch.from_numpy(adj),
            torch.from_numpy(mask.astype(np.float32)), torch.from_numpy(y))


def collate(samples):
    atoms, adj, mask, y = (torch.stack(t) for t in zip(*samples))
    # which assays were measured at all for these molecules
    present = [name for k, name in enumerate(ASSAYS) if not torch.isnan(y[:, k]).all()]
    return {"atoms": atoms, "adj": adj, "mask": mask, "y": y, "present": present}


class MPNN(nn.Module):

    def __init__(self, hidden=24, rounds=2):
        super().__init__()
        self.embed = nn.Embedding(N_ATOM_TYPES, hidden)
        self.msg = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(rounds)])
        self.upd = nn.Linear(2 * hidden, hidden)
        self.heads = nn.ModuleDict({name: nn.Linear(hidden, 1) for name in ASSAYS})

    def encode(self, atoms, adj, mask):
        h = self.embed(atoms) * mask[..., None]
        for lin in self.msg:
            m = adj @ F.relu(lin(h))
            h = (h + torch.tanh(self.upd(torch.cat([h, m], -1)))) * mask[..., None]
        return h.sum(1) / mask.sum(1, keepdim=True)


def assay_loss(logit, target):
    known = ~torch.isnan(target)
    target = torch.where(known, target, torch.zeros_like(target))
    per = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
    return (per * known).sum() / known.sum()


def main(epochs=3, lr=0.05):
    torch.manual_seed(0)
    device = torch_xla.device()
    ds = TensorDataset(*toy_molecules(240, seed=2))
    loader = DataLoader(ds, batch_size=BATCH, shuffle=True, drop_last=True, collate_fn=collate)
    model = MPNN().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    for epoch in range(epochs):
        running = torch.zeros((), device=device)
        for batch in pl.MpDeviceLoader(loader, device):
            rep = model.encode(batch["atoms"], batch["adj"], batch["mask"])
            losses = []
            for k, name in enumerate(ASSAYS):
                if name not in batch["present"]:
                    continue
                logit = model.heads[name](rep).squeeze(-1)
                losses.append(assay_loss(logit, batch["y"][:, k]))
            loss = torch.stack(losses).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.detach()
        torch_xla.sync()
        print(f"epoch {epoch} mean loss {running.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
