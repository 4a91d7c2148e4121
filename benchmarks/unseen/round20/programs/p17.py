"""Airline pricing: a demand model and a fare policy trained in alternation."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEATURES = 6
FLIGHTS = 50
BATCH = 16
ACCUMULATE = 2
EPOCHS = 6


def flights(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(FLIGHTS, FEATURES)).astype(np.float32)
    fare = rng.uniform(0.5, 2.0, size=(FLIGHTS, 1)).astype(np.float32)
    rate = np.exp(1.0 + 0.4 * x[:, :1] - 0.9 * fare)
    sold = rng.poisson(rate).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(fare), torch.from_numpy(sold)


def batches(tensors):
    for i in range(0, FLIGHTS, BATCH):
        yield [t[i:i + BATCH] for t in tensors]


demand = nn.Sequential(nn.Linear(FEATURES + 1, 16), nn.Tanh(), nn.Linear(16, 1))
policy = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 1))


def fit_demand(data, opt, device):
    last = 0.0
    opt.zero_grad()
    for i, batch in enumerate(batches(data)):
        x, fare, sold = (t.to(device) for t in batch)
        log_rate = demand(torch.cat([x, fare], dim=1))
        loss = F.poisson_nll_loss(log_rate, sold) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            nn.utils.clip_grad_norm_(demand.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
        torch_xla.sync()
        last = loss
    return last.item()


def improve_fares(data, opt, device):
    revenue = None
    for x, _, _ in batches(data):
        x = x.to(device)
        fare = 0.5 + 1.5 * torch.sigmoid(policy(x))
        revenue = (fare * torch.exp(demand(torch.cat([x, fare], dim=1)))).mean()
        opt.zero_grad()
        (-revenue).backward()
        opt.step()
        demand.zero_grad()
        torch_xla.sync()
    return revenue.item()


def main():
    torch.manual_seed(9)
    for m in (demand, policy):
        for p in m.parameters():
            nn.init.normal_(p, std=0.2)
    device = torch_xla.device()
    demand.to(device)
    policy.to(device)
    data = flights(10)
    demand_opt = torch.optim.SGD(demand.parameters(), lr=0.1)
    policy_opt = torch.optim.SGD(policy.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        nll = fit_demand(data, demand_opt, device)
        revenue = improve_fares(data, policy_opt, device)
        print(f"epoch {epoch} nll {nll:.3f} revenue {revenue:.3f}")


if __name__ == "__main__":
    main()
