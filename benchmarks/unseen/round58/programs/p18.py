"""FedAvg simulation: non-IID clients, partial participation, weighted aggregation."""
import copy
import logging
from typing import Dict, List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("fed")

CLASSES, FEATS = 5, 12
CLIENTS, PER_ROUND, ROUNDS = 12, 3, 15
BATCH, LOCAL_LR, MOMENTUM = 16, 0.1, 0.5


def make_population(seed):
    """Dirichlet label skew and log-normal client sizes."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 1.2, (CLASSES, FEATS))
    shards = []
    for _ in range(CLIENTS):
        n = int(np.clip(BATCH * rng.lognormal(1.2, 0.55), BATCH, 8 * BATCH))
        y = rng.choice(CLASSES, size=n, p=rng.dirichlet(np.full(CLASSES, 0.6)))
        x = centers[y] + rng.normal(0, 1, (n, FEATS)) + rng.normal(0, 0.3, FEATS)
        shards.append((torch.tensor(x, dtype=torch.float32), torch.tensor(y)))
    y = rng.choice(CLASSES, size=128)
    x = centers[y] + rng.normal(0, 1, (128, FEATS))
    return shards, (torch.tensor(x, dtype=torch.float32), torch.tensor(y))


class Client:
    def __init__(self, cid, x, y, device):
        self.cid, self.x, self.y, self.device = cid, x, y, device
        self.gen = torch.Generator().manual_seed(100 + cid)

    def __len__(self):
        return len(self.y)

    def loader(self):
        order = torch.randperm(len(self), generator=self.gen)
        for i in range(len(self) // BATCH):
            take = order[i * BATCH:(i + 1) * BATCH]
            yield self.x[take].to(self.device), self.y[take].to(self.device)

    def fit(self, global_model):
        model = copy.deepcopy(global_model)
        opt = torch.optim.SGD(model.parameters(), lr=LOCAL_LR)
        running = torch.zeros((), device=self.device)
        seen = 0
        model.train()
        for x, y in self.loader():
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            running = running + loss.detach()
            seen += 1
        return {k: v.detach() for k, v in model.state_dict().items()}, running / seen


class Server:
    def __init__(self, model, clients: List[Client], seed):
        self.model, self.clients = model, clients
        self.rng = np.random.default_rng(seed)
        self.velocity = {k: torch.zeros_like(v) for k, v in model.state_dict().items()}

    def pick(self):
        return [self.clients[i] for i in self.rng.choice(len(self.clients), PER_ROUND, replace=False)]

    @torch.no_grad()
    def aggregate(self, updates: List[Dict[str, torch.Tensor]], weights: torch.Tensor):
        state = self.model.state_dict()
        for k, current in state.items():
            stacked = torch.stack([u[k] for u in updates])
            shape = (-1,) + (1,) * current.dim()
            target = (stacked * weights.view(shape)).sum(0)
            self.velocity[k].mul_(MOMENTUM).add_(target - current)
            current.add_(self.velocity[k])

    def run_round(self):
        chosen = self.pick()
        results = [c.fit(self.model) for c in chosen]
        sizes = torch.tensor([float(len(c)) for c in chosen])
        weights = (sizes / sizes.sum()).to(xm.xla_device())
        self.aggregate([r[0] for r in results], weights)
        loss = torch.stack([r[1] for r in results]).mean()
        xm.mark_step()
        return loss, [c.cid for c in chosen]


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    hits = (model(x).argmax(-1) == y).float().mean()
    return hits.item()


def main():
    torch.manual_seed(9)
    device = xm.xla_device()
    shards, (tx, ty) = make_population(seed=4)
    clients = [Client(i, x, y, device) for i, (x, y) in enumerate(shards)]
    model = nn.Sequential(nn.Linear(FEATS, 20), nn.ReLU(), nn.Linear(20, CLASSES)).to(device)
    tx, ty = tx.to(device), ty.to(device)
    server = Server(model, clients, seed=6)
    xm.mark_step()
    log.info("clients %s", [len(c) for c in clients])

    for rnd in range(1, ROUNDS + 1):
        loss, ids = server.run_round()
        if rnd % 5 == 0:
            log.info("round %2d clients %s loss %.3f acc %.3f",
                     rnd, ids, loss.item(), accuracy(model, tx, ty))


if __name__ == "__main__":
    main()
