"""DeepHit-style time-to-readmission model on coded hospital visits."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class VisitDataset:
    """Synthetic stand-in for the extracted cohort (codes per visit, labs, time bin, event flag)."""

    def __init__(self, n, n_codes, n_visits, codes_per_visit, n_labs, n_bins, seed=0):
        rng = np.random.default_rng(seed)
        self.codes = rng.integers(1, n_codes, (n, n_visits, codes_per_visit))
        self.labs = rng.normal(size=(n, n_labs)).astype(np.float32)
        risk = self.labs[:, 0] + 0.3 * self.labs[:, 1]
        raw = rng.exponential(np.exp(-risk) * n_bins / 3)
        censor = rng.uniform(0, n_bins * 1.2, n)
        self.time = np.minimum(np.minimum(raw, censor), n_bins - 1).astype(np.int64)
        self.event = (raw <= censor).astype(np.int64)

    def __len__(self):
        return len(self.time)


def collate(ds, index):
    t, e = ds.time[index], ds.event[index]
    first, second = np.nonzero((e[:, None] == 1) & (t[:, None] < t[None, :]))
    return {
        "codes": torch.from_numpy(ds.codes[index]),
        "labs": torch.from_numpy(ds.labs[index]),
        "time": torch.from_numpy(t),
        "event": torch.from_numpy(e).float(),
        "first": torch.from_numpy(first),
        "second": torch.from_numpy(second),
    }


class DeepHit(nn.Module):
    def __init__(self, n_codes, n_labs, n_bins, dim=16):
        super().__init__()
        self.code_emb = nn.Embedding(n_codes, dim, padding_idx=0)
        self.visits = nn.GRU(dim, dim, batch_first=True)
        self.labs = nn.Sequential(nn.Linear(n_labs, dim), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, n_bins))

    def forward(self, codes, labs):
        visit = self.code_emb(codes).sum(2)
        _, h = self.visits(visit)
        return self.head(torch.cat([h[-1], self.labs(labs)], -1))


def likelihood(pmf, time, event):
    hit = pmf.gather(1, time[:, None]).squeeze(1)
    tail = 1.0 - pmf.cumsum(1).gather(1, time[:, None]).squeeze(1)
    return -(event * torch.log(hit + 1e-7) + (1 - event) * torch.log(tail + 1e-7)).mean()


def ranking(pmf, time, first, second, sigma=0.2):
    cif = pmf.cumsum(1)
    at = time[first][:, None]
    own = cif[first].gather(1, at)
    other = cif[second].gather(1, at)
    return torch.exp((other - own) / sigma).mean()


def train_step(model, opt, batch, alpha):
    opt.zero_grad()
    pmf = F.softmax(model(batch["codes"], batch["labs"]), -1)
    loss = likelihood(pmf, batch["time"], batch["event"])
    loss = loss + alpha * ranking(pmf, batch["time"], batch["first"], batch["second"])
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=12)
    ap.add_argument("--alpha", type=float, default=0.3)
    args = ap.parse_args()

    torch.manual_seed(11)
    device = torch_xla.device()
    ds = VisitDataset(240, n_codes=60, n_visits=4, codes_per_visit=5, n_labs=6, n_bins=10)
    model = DeepHit(60, 6, 10).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    torch_xla.sync()

    rng = np.random.default_rng(1)
    order = rng.permutation(len(ds))
    losses = []
    for step in range(args.steps):
        index = order[step * args.batch_size:(step + 1) * args.batch_size]
        batch = {k: v.to(device) for k, v in collate(ds, index).items()}
        losses.append(train_step(model, opt, batch, args.alpha))
        torch_xla.sync()
    print([round(l.item(), 4) for l in losses])


if __name__ == "__main__":
    main()
