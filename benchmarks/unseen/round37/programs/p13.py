"""Wide-and-deep click model, trained sparse.

The deep tower is pruned by magnitude while it trains, with the cubic schedule
of Zhu & Gupta (2017): dense during warm-up, then the sparsity rises to its
final value and stays there for the rest of the run.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    fields: int = 8
    vocab: int = 50
    dim: int = 8
    dense: int = 6
    hidden: int = 64
    batch: int = 64
    steps: int = 60
    lr: float = 3e-3
    prune_start: int = 8
    prune_end: int = 56
    prune_every: int = 4
    final_sparsity: float = 0.85
    seed: int = 21


class WideDeep(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.offsets = nn.Buffer(torch.arange(cfg.fields) * cfg.vocab)
        self.wide = nn.Embedding(cfg.fields * cfg.vocab, 1)
        self.embed = nn.Embedding(cfg.fields * cfg.vocab, cfg.dim)
        nn.init.normal_(self.embed.weight, std=0.05)
        nn.init.zeros_(self.wide.weight)
        d_in = cfg.fields * cfg.dim + cfg.dense
        self.fc1 = nn.Linear(d_in, cfg.hidden)
        self.fc2 = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, 1)

    def forward(self, cats, dense):
        idx = cats + self.offsets
        wide = self.wide(idx).sum(1).squeeze(-1)
        h = torch.cat([self.embed(idx).flatten(1), dense], dim=1)
        h = F.relu(self.fc1(h))
        h = F.relu(self.fc2(h))
        return wide + self.out(h).squeeze(-1)


class MagnitudePruner:
    def __init__(self, layers, cfg):
        self.layers = layers
        self.cfg = cfg
        self.masks = [torch.ones_like(layer.weight) for layer in layers]

    def sparsity_at(self, step):
        c = self.cfg
        if step < c.prune_start:
            return 0.0
        t = min(1.0, (step - c.prune_start + 1) / (c.prune_end - c.prune_start))
        return c.final_sparsity * (1.0 - (1.0 - t) ** 3)

    def due(self, step):
        c = self.cfg
        return c.prune_start <= step <= c.prune_end and step % c.prune_every == 0

    @torch.no_grad()
    def update_masks(self, step):
        sparsity = self.sparsity_at(step)
        for i, layer in enumerate(self.layers):
            score = layer.weight.abs().flatten()
            n_prune = int(sparsity * score.numel())
            lowest = torch.topk(score, n_prune, largest=False).values
            self.masks[i] = (layer.weight.abs() > lowest.max()).to(layer.weight.dtype)
        return sparsity

    @torch.no_grad()
    def apply(self):
        for layer, mask in zip(self.layers, self.masks):
            layer.weight.mul_(mask)

    @torch.no_grad()
    def density(self):
        kept = sum(m.sum() for m in self.masks)
        return kept / sum(m.numel() for m in self.masks)


class Clicks:
    """Endless stream of synthetic impressions with a hidden linear preference."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg.seed)
        self.taste = torch.randn(cfg.fields, cfg.vocab, generator=self.gen)
        self.coef = torch.randn(cfg.dense, generator=self.gen)

    def next(self):
        c = self.cfg
        cats = torch.randint(0, c.vocab, (c.batch, c.fields), generator=self.gen)
        dense = torch.randn(c.batch, c.dense, generator=self.gen)
        logit = self.taste.gather(1, cats.t()).sum(0) * 0.5 + dense @ self.coef
        y = torch.bernoulli(torch.sigmoid(logit), generator=self.gen)
        return cats, dense, y


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()

    stream = Clicks(cfg)
    model = WideDeep(cfg).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    pruner = MagnitudePruner([model.fc1, model.fc2], cfg)
    loss_sum = torch.zeros((), device=device)
    xm.mark_step()

    for step in range(cfg.steps):
        cats, dense, y = (t.to(device) for t in stream.next())

        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(cats, dense), y)
        loss.backward()
        optimizer.step()
        pruner.apply()
        loss_sum += loss.detach()
        xm.mark_step()

        if pruner.due(step):
            sparsity = pruner.update_masks(step)
            pruner.apply()
            xm.mark_step()
            print(f"step {step}: sparsity target {sparsity:.3f}")

        if (step + 1) % 20 == 0:
            print(f"step {step + 1}: loss {loss_sum.item() / 20:.4f}")
            loss_sum = torch.zeros((), device=device)
            xm.mark_step()

    print(f"density {pruner.density().item():.3f}")


if __name__ == "__main__":
    main()
