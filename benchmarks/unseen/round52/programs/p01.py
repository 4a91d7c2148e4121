"""Potts model of a protein family, fitted with persistent contrastive divergence.

The alignment is synthetic: sequences are drawn around a handful of ancestors
with a few coupled columns, so the couplings have something to find.
"""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--length", type=int, default=28)
    p.add_argument("--states", type=int, default=6)
    p.add_argument("--chains", type=int, default=48)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--sweep", type=int, default=5, help="sites resampled per update")
    p.add_argument("--steps", type=int, default=36)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--l2-j", type=float, default=1e-2)
    p.add_argument("--l2-h", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def synthetic_alignment(n, length, states, rng):
    ancestors = rng.integers(0, states, size=(4, length))
    rows = ancestors[rng.integers(0, 4, size=n)].copy()
    mutate = rng.random(rows.shape) < 0.25
    rows[mutate] = rng.integers(0, states, size=int(mutate.sum()))
    for a, b in ((2, 17), (5, 21), (9, 25)):
        rows[:, b] = (rows[:, a] + 1) % states
    return torch.from_numpy(rows)


class Potts(nn.Module):
    def __init__(self, length, states):
        super().__init__()
        self.length, self.states = length, states
        self.h = nn.Parameter(torch.zeros(length, states))
        self.J = nn.Parameter(torch.zeros(length, length, states, states))
        off_diag = 1.0 - torch.eye(length)
        self.register_buffer("off_diag", off_diag[:, :, None, None])

    def couplings(self):
        sym = 0.5 * (self.J + self.J.permute(1, 0, 3, 2))
        return sym * self.off_diag

    def energy(self, s):
        J = self.couplings()
        field = torch.einsum("nia,ia->n", s, self.h)
        pair = torch.einsum("nia,ijab,njb->n", s, J, s)
        return -(field + 0.5 * pair)

    def penalty(self, l2_h, l2_j):
        return l2_h * self.h.square().sum() + l2_j * self.couplings().square().sum()


class PersistentChains:
    """Random-scan Gibbs chains kept on the device between updates."""

    def __init__(self, n_chains, model, device, rng):
        start = rng.integers(0, model.states, size=(n_chains, model.length))
        onehot = F.one_hot(torch.from_numpy(start), model.states).float()
        self.state = onehot.to(device)
        self.model = model

    @torch.no_grad()
    def advance(self, n_sites):
        J = self.model.couplings()
        sites = random.sample(range(self.model.length), n_sites)
        s = self.state
        for site in sites:
            logits = self.model.h[site] + torch.einsum("njb,jab->na", s, J[site])
            noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_min(1e-9)))
            picked = (logits + noise).argmax(dim=-1)
            s[:, site] = F.one_hot(picked, self.model.states).float()
        return s


def contact_scores(J):
    """Frobenius norm of the zero-sum couplings with average product correction."""
    J = J - J.mean(-1, keepdim=True) - J.mean(-2, keepdim=True) + J.mean((-1, -2), keepdim=True)
    fro = J.square().sum((-1, -2)).sqrt()
    apc = fro.mean(0, keepdim=True) * fro.mean(1, keepdim=True) / fro.mean()
    return fro - apc


def main():
    args = parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    device = torch_xla.device()

    msa = synthetic_alignment(1024, args.length, args.states, rng)
    msa = F.one_hot(msa, args.states).float()

    model = Potts(args.length, args.states).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.8)
    chains = PersistentChains(args.chains, model, device, rng)

    for step in range(args.steps):
        rows = rng.integers(0, len(msa), size=args.batch)
        data = msa[torch.from_numpy(rows)].to(device)

        fantasy = chains.advance(args.sweep)
        gap = model.energy(data).mean() - model.energy(fantasy).mean()
        loss = gap + model.penalty(args.l2_h, args.l2_j)

        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()

        if step % 6 == 5:
            print(f"step {step + 1:3d}  energy gap {gap.item():+.4f}")

    scores = contact_scores(model.couplings().detach().cpu())
    iu = torch.triu_indices(args.length, args.length, offset=4)
    best = scores[iu[0], iu[1]].topk(5).indices
    print("top contacts:", [(int(iu[0, b]), int(iu[1, b])) for b in best])


if __name__ == "__main__":
    main()
