"""Ranking of hotel search results (listwise softmax loss), trained with Lion."""
from typing import Iterable, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Lion(torch.optim.Optimizer):
    """Sign-of-momentum optimizer (Chen et al., 2023)."""

    def __init__(self, params: Iterable, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "ema" not in state:
                    state["ema"] = torch.zeros_like(p)
                ema = state["ema"]
                p.mul_(1.0 - lr * group["weight_decay"])
                direction = ema.mul(beta1).add(p.grad, alpha=1.0 - beta1)
                ema.mul_(beta2).add_(p.grad, alpha=1.0 - beta2)
                p.add_(torch.sign(direction), alpha=-lr)


class Query(NamedTuple):
    user: torch.Tensor       # [B, U]
    hotels: torch.Tensor     # [B, K, H] numeric
    city: torch.Tensor       # [B]
    booked: torch.Tensor     # [B]


class HotelRanker(nn.Module):
    def __init__(self, user=8, hotel=10, cities=20, width=24):
        super().__init__()
        self.city = nn.Embedding(cities, 8)
        self.user = nn.Sequential(nn.Linear(user + 8, width), nn.PReLU(), nn.Linear(width, width))
        self.hotel = nn.Sequential(nn.Linear(hotel, width), nn.PReLU(), nn.Linear(width, width))
        self.bias = nn.Linear(hotel, 1, bias=False)
        self.log_temp = nn.Parameter(torch.zeros(()))

    def forward(self, q: Query):
        u = F.normalize(self.user(torch.cat([q.user, self.city(q.city)], dim=-1)), dim=-1)
        h = F.normalize(self.hotel(q.hotels), dim=-1)
        match = torch.einsum("bd,bkd->bk", u, h)
        return match * torch.exp(self.log_temp) + self.bias(q.hotels).squeeze(-1)


class SearchLog:
    def __init__(self, seed, cities=20, shown=12):
        self.gen = torch.Generator().manual_seed(seed)
        self.cities, self.shown = cities, shown
        self.taste = torch.randn(8, 10, generator=self.gen)

    def next(self, n) -> Query:
        g = self.gen
        user = torch.randn(n, 8, generator=g)
        hotels = torch.randn(n, self.shown, 10, generator=g)
        utility = torch.einsum("bu,uh,bkh->bk", user, self.taste, hotels) / 4
        gumbel = -torch.log(-torch.log(torch.rand(utility.shape, generator=g)))
        return Query(user, hotels, torch.randint(0, self.cities, (n,), generator=g),
                     (utility + gumbel).argmax(dim=1))


def listwise_loss(scores, booked, top_prior=0.02):
    log_p = F.log_softmax(scores, dim=1)
    picked = log_p.gather(1, booked.unsqueeze(1)).squeeze(1)
    spread = log_p.mean(dim=1)
    return -((1 - top_prior) * picked + top_prior * spread).mean()


def param_groups(model, decay):
    matrices = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim != 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": rest}]


def main():
    torch.manual_seed(77)
    device = torch_xla.device()
    log = SearchLog(seed=78)
    model = HotelRanker().to(device)
    opt = Lion(param_groups(model, 0.05), lr=8e-4)
    for it in range(18):
        query = Query(*(t.to(device) for t in log.next(16)))
        opt.zero_grad()
        loss = listwise_loss(model(query), query.booked)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if it % 6 == 5:
            print(f"it {it + 1}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
