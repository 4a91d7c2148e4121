"""Click-through model (DLRM style) with gradual magnitude pruning of its dense towers."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CARDINALITIES = [50, 30, 20, 80]
N_DENSE = 6
EMB = 8


class Interaction(nn.Module):
    def __init__(self, n_vectors):
        super().__init__()
        i, j = torch.triu_indices(n_vectors, n_vectors, offset=1)
        self.register_buffer("pairs", i * n_vectors + j)

    def forward(self, vectors):
        gram = torch.bmm(vectors, vectors.transpose(1, 2))
        return gram.flatten(1).index_select(1, self.pairs)


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, EMB) for c in CARDINALITIES)
        self.bottom = nn.Sequential(nn.Linear(N_DENSE, 32), nn.ReLU(), nn.Linear(32, EMB), nn.ReLU())
        n = len(CARDINALITIES) + 1
        self.interaction = Interaction(n)
        self.top = nn.Sequential(
            nn.Linear(EMB + n * (n - 1) // 2, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, cats):
        d = self.bottom(dense)
        vecs = [d] + [t(cats[:, k]) for k, t in enumerate(self.tables)]
        x = self.interaction(torch.stack(vecs, 1))
        return self.top(torch.cat([d, x], 1)).squeeze(1)


class CubicSchedule:
    """Zhu & Gupta (2017)."""

    def __init__(self, start, end, final_sparsity):
        self.start, self.end, self.final = start, end, final_sparsity

    def __call__(self, step):
        if step < self.start:
            return 0.0
        done = min(1.0, (step - self.start) / (self.end - self.start))
        return self.final * (1.0 - (1.0 - done) ** 3)


class MagnitudePruner:
    def __init__(self, model, schedule):
        self.schedule = schedule
        self.layers = [m for part in (model.bottom, model.top) for m in part
                       if isinstance(m, nn.Linear) and m.out_features > 1]
        self.masks = [torch.ones_like(m.weight) for m in self.layers]

    @torch.no_grad()
    def update(self, step):
        sparsity = self.schedule(step)
        for layer, mask in zip(self.layers, self.masks):
            scores = layer.weight.abs().flatten()
            n_drop = int(sparsity * scores.numel())
            if n_drop > 0:
                cut = torch.kthvalue(scores, n_drop).values
                mask.copy_((layer.weight.abs() > cut).to(mask.dtype))

    @torch.no_grad()
    def apply(self):
        for layer, mask in zip(self.layers, self.masks):
            layer.weight.mul_(mask)

    def density(self):
        kept = sum(m.sum() for m in self.masks)
        return kept / sum(m.numel() for m in self.masks)


def batches(n_steps, size, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(N_DENSE, generator=g)
    bias = [torch.randn(c, generator=g) for c in CARDINALITIES]
    for _ in range(n_steps):
        dense = torch.randn(size, N_DENSE, generator=g)
        cats = torch.stack([torch.randint(0, c, (size,), generator=g) for c in CARDINALITIES], 1)
        logit = dense @ w + sum(b[cats[:, k]] for k, b in enumerate(bias))
        yield dense, cats, (torch.rand(size, generator=g) < torch.sigmoid(logit)).float()


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    steps = 60
    model = ClickModel().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    pruner = MagnitudePruner(model, CubicSchedule(start=8, end=48, final_sparsity=0.85))

    for step, (dense, cats, clicked) in enumerate(batches(steps, 64, seed=11)):
        dense, cats, clicked = dense.to(device), cats.to(device), clicked.to(device)
        loss = F.binary_cross_entropy_with_logits(model(dense, cats), clicked)
        opt.zero_grad()
        loss.backward()
        opt.step()
        pruner.update(step)
        pruner.apply()
        torch_xla.sync()
        if step % 20 == 19:
            print(f"step {step:3d}  bce {loss.item():.4f}  density {pruner.density().item():.3f}")


if __name__ == "__main__":
    main()
