"""Reordering shuffled stratigraphic layers with a relaxed permutation.

Each sample is a set of layers from a drill core in random order. The network
scores (layer, position) pairs, the scores are balanced into a doubly
stochastic matrix by alternating scaling, and the loss compares the sorted core.
"""
import torch
import torch.nn as nn
import torch_xla

LAYERS, FEATS = 5, 5


def drill_cores(n, gen):
    depth = torch.rand(n, LAYERS, generator=gen).cumsum(1) / 4
    chem = torch.stack([depth, depth.pow(2), torch.sin(3 * depth),
                        torch.cos(2 * depth), torch.exp(-depth)], -1)
    chem = chem + 0.03 * torch.randn(chem.shape, generator=gen)
    order = torch.stack([torch.randperm(LAYERS, generator=gen) for _ in range(n)])
    mixed = torch.gather(chem, 1, order.unsqueeze(-1).expand(-1, -1, FEATS))
    return mixed, chem, order


class SetScorer(nn.Module):
    """Score of every layer for every position, with a pooled context."""

    def __init__(self, width=16):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(FEATS, width), nn.ReLU(), nn.Linear(width, width))
        self.context = nn.Linear(width, width)
        self.score = nn.Linear(width, LAYERS)

    def forward(self, x):
        h = self.local(x)
        h = torch.relu(h + self.context(h.mean(1, keepdim=True)))
        return self.score(h)


def balance(scores, tol=5e-2, max_iter=24):
    plan = scores.softmax(dim=2)
    for _ in range(max_iter):
        plan = plan / plan.sum(1, keepdim=True)
        rows = plan.sum(2, keepdim=True)
        plan = plan / rows
        if (rows.detach() - 1).abs().max() < tol:
            break
    return plan


class CoreSorter(nn.Module):
    def __init__(self, tau):
        super().__init__()
        self.scorer = SetScorer()
        self.tau = tau

    def forward(self, x, noise=0.0):
        logits = self.scorer(x)
        if noise:
            u = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
            logits = logits - noise * torch.log(-torch.log(u))
        perm = balance(logits / self.tau)
        return torch.einsum("blp,blf->bpf", perm, x), perm


@torch.no_grad()
def position_accuracy(perm, order):
    return (perm.argmax(2) == order).float().mean()


def main():
    torch.manual_seed(53)
    gen = torch.Generator().manual_seed(59)
    device = torch_xla.device()
    model = CoreSorter(tau=0.35).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)

    steps, batch = 18, 6
    for step in range(steps):
        mixed, core, order = (t.to(device) for t in drill_cores(batch, gen))
        restored, perm = model(mixed, noise=0.6)
        loss = (restored - core).pow(2).mean()
        entropy = -(perm * (perm + 1e-8).log()).sum(2).mean()
        objective = loss + 0.002 * entropy
        opt.zero_grad()
        objective.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        opt.step()
        acc = position_accuracy(perm, order)
        torch_xla.sync()
        if (step + 1) % 6 == 0:
            print(f"step {step + 1} mse {loss.item():.4f} "
                  f"entropy {entropy.item():.3f} acc {acc.item():.2f}")


if __name__ == "__main__":
    main()
