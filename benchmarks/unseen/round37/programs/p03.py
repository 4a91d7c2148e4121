"""Click-through-rate model trained with gradual magnitude pruning."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FIELD_SIZES = (40, 25, 60, 12, 8)
NUM_DENSE = 6
EMB_DIM = 8
BATCH = 64
STEPS = 48


class CTRNet(nn.Module):
    def __init__(self, field_sizes, num_dense, emb_dim):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, emb_dim) for n in field_sizes)
        self.bottom = nn.Sequential(nn.Linear(num_dense, 32), nn.ReLU(), nn.Linear(32, emb_dim))
        n = len(field_sizes) + 1
        self.register_buffer("pairs", torch.triu_indices(n, n, offset=1))
        self.top = nn.Sequential(
            nn.Linear(self.pairs.size(1) + emb_dim, 48), nn.ReLU(),
            nn.Linear(48, 24), nn.ReLU(),
            nn.Linear(24, 1),
        )

    def forward(self, dense, cats):
        d = self.bottom(dense)
        vecs = [d] + [table(cats[:, i]) for i, table in enumerate(self.tables)]
        z = torch.stack(vecs, dim=1)
        inter = torch.bmm(z, z.transpose(1, 2))
        inter = inter[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([inter, d], dim=1)).squeeze(1)


class GradualPruner:
    """Cubic sparsity schedule of Zhu & Gupta; masks are decided on the host."""

    def __init__(self, model, final_sparsity, begin, end, every):
        self.final_sparsity = final_sparsity
        self.begin, self.end, self.every = begin, end, every
        self.params = {
            name: p for name, p in model.named_parameters()
            if p.dim() == 2 and not name.startswith("tables")
        }
        self.masks = {name: torch.ones_like(p) for name, p in self.params.items()}

    def sparsity(self, step):
        progress = (step - self.begin) / (self.end - self.begin)
        progress = min(max(progress, 0.0), 1.0)
        return self.final_sparsity * (1.0 - (1.0 - progress) ** 3)

    def due(self, step):
        return self.begin <= step <= self.end and (step - self.begin) % self.every == 0

    @torch.no_grad()
    def apply(self):
        for name, p in self.params.items():
            p.mul_(self.masks[name])

    def update(self, step):
        target = self.sparsity(step)
        for name, p in self.params.items():
            weight = p.detach().cpu().abs()
            threshold = np.quantile(weight.numpy(), target)
            mask = (weight > threshold).float().to(p.device)
            self.masks[name] = mask
            p.register_hook(lambda grad, mask=mask: grad * mask)
        self.apply()
        return target

    def density(self):
        kept = sum(m.cpu().sum().item() for m in self.masks.values())
        return kept / sum(m.numel() for m in self.masks.values())


class ClickLog:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.effects = [self.rng.normal(0, 0.7, n) for n in FIELD_SIZES]
        self.coef = self.rng.normal(0, 0.6, NUM_DENSE)

    def __iter__(self):
        while True:
            dense = self.rng.normal(size=(BATCH, NUM_DENSE))
            cats = np.stack([self.rng.integers(0, n, BATCH) for n in FIELD_SIZES], axis=1)
            logit = dense @ self.coef - 0.5
            for i, effect in enumerate(self.effects):
                logit = logit + effect[cats[:, i]]
            clicks = self.rng.random(BATCH) < 1 / (1 + np.exp(-logit))
            yield (torch.tensor(dense, dtype=torch.float32),
                   torch.tensor(cats),
                   torch.tensor(clicks, dtype=torch.float32))


def main():
    torch.manual_seed(3)
    device = xm.xla_device()
    model = CTRNet(FIELD_SIZES, NUM_DENSE, EMB_DIM).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    pruner = GradualPruner(model, final_sparsity=0.8, begin=8, end=44, every=6)

    model.train()
    window = torch.zeros((), device=device)
    for step, (dense, cats, clicks) in enumerate(ClickLog(3)):
        if step == STEPS:
            break
        dense, cats, clicks = dense.to(device), cats.to(device), clicks.to(device)
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(dense, cats), clicks)
        loss.backward()
        optimizer.step()
        pruner.apply()
        window += loss.detach()
        torch_xla.sync()

        if pruner.due(step):
            target = pruner.update(step)
            torch_xla.sync()
            print(f"step {step:3d} target sparsity {target:.2f} density {pruner.density():.2f}")
        if (step + 1) % 12 == 0:
            print(f"step {step + 1:3d} logloss {window.item() / 12:.4f}")
            window.zero_()


if __name__ == "__main__":
    main()
