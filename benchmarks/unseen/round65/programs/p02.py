"""Two-tower retrieval of recipes for shopping baskets.

In-batch negatives are few with a batch of 16, so item embeddings of earlier
batches are kept in a ring and used as additional negatives, with their ids
masking the false ones.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_INGREDIENTS = 60
N_RECIPES = 500
N_TRAITS = 12


def baskets(batch, basket, seed):
    """Endless (ingredient counts, recipe traits, recipe id) triples."""
    g = torch.Generator().manual_seed(seed)
    traits = torch.randn(N_RECIPES, N_TRAITS, generator=g)
    taste = torch.randn(N_TRAITS, N_INGREDIENTS, generator=g)
    while True:
        recipe = torch.randint(0, N_RECIPES, (batch,), generator=g)
        drawn = torch.multinomial((traits[recipe] @ taste).softmax(1), basket,
                                  replacement=True, generator=g)
        counts = torch.zeros(batch, N_INGREDIENTS)
        counts.scatter_add_(1, drawn, torch.ones(batch, basket))
        yield counts, traits[recipe], recipe


class BasketTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bag = nn.Linear(N_INGREDIENTS, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, counts):
        h = F.relu(self.bag(torch.log1p(counts)))
        return F.normalize(self.out(h), dim=-1)


class RecipeTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N_TRAITS, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, traits):
        return F.normalize(self.net(traits), dim=-1)


class NegativeRing(nn.Module):
    """First-in first-out store of detached item embeddings."""

    def __init__(self, size, dim):
        super().__init__()
        self.size = size
        self.head = 0
        self.register_buffer("feats", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("ids", torch.full((size,), -1, dtype=torch.long))

    @torch.no_grad()
    def push(self, feats, ids):
        n = feats.shape[0]
        end = self.head + n
        self.feats[self.head:end] = feats
        self.ids[self.head:end] = ids
        self.head = end % self.size

    def logits(self, query, positive_ids):
        sim = query @ self.feats.t()
        same = positive_ids.unsqueeze(1) == self.ids.unsqueeze(0)
        return sim.masked_fill(same, -1e4)


class Retriever(nn.Module):
    def __init__(self, dim, ring):
        super().__init__()
        self.basket = BasketTower(dim)
        self.recipe = RecipeTower(dim)
        self.ring = NegativeRing(ring, dim)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, basket, traits, recipe):
        q = self.basket(basket)
        k = self.recipe(traits)
        scale = self.log_scale.clamp(max=4.0).exp()
        own = q @ k.t()
        dup = recipe.unsqueeze(1) == recipe.unsqueeze(0)
        eye = torch.eye(q.shape[0], dtype=torch.bool, device=q.device)
        own = own.masked_fill(dup & ~eye, -1e4)
        logits = scale * torch.cat([own, self.ring.logits(q, recipe)], dim=1)
        target = torch.arange(q.shape[0], device=q.device)
        return F.cross_entropy(logits, target), k.detach(), (
            logits.argmax(1) == target).float().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--dim", type=int, default=24)
    ap.add_argument("--ring", type=int, default=1024)
    args = ap.parse_args()

    torch.manual_seed(5)
    device = torch_xla.device()
    model = Retriever(args.dim, args.ring).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    data = baskets(args.batch, basket=9, seed=17)

    hits = torch.zeros((), device=device)
    for step in range(1, args.steps + 1):
        basket, traits, recipe = (t.to(device) for t in next(data))
        opt.zero_grad()
        loss, keys, acc = model(basket, traits, recipe)
        loss.backward()
        opt.step()
        model.ring.push(keys, recipe)
        hits = 0.9 * hits + 0.1 * acc
        torch_xla.sync()
        if step % 6 == 0:
            print(f"{step:4d} loss {loss.item():.3f} top1 {hits.item():.3f}")


if __name__ == "__main__":
    main()
