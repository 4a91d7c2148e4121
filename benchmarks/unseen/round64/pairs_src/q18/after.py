import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

FIELDS = {"city": 12, "merchant": 20, "channel": 4, "device": 6, "weekday": 7}
N_DENSE = 5
BATCH = 16


class DeepFM(nn.Module):
    """Chargeback score of a card payment."""

    def __init__(self, dim=6, hidden=16):
        super().__init__()
        self.embed = nn.ModuleDict({k: nn.Embedding(n, dim) for k, n in FIELDS.items()})
        self.first = nn.ModuleDict({k: nn.Embedding(n, 1) for k, n in FIELDS.items()})
        self.dense_first = nn.Linear(N_DENSE, 1)
        self.deep1 = nn.Linear(len(FIELDS) * dim + N_DENSE, hidden)
        self.deep2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def interactions(self, vectors):
        stacked = torch.stack(vectors, dim=1)
        square_of_sum = stacked.sum(dim=1).pow(2)
        sum_of_square = stacked.pow(2).sum(dim=1)
        return 0.5 * (square_of_sum - sum_of_square).sum(dim=1)

    def forward(self, cats, dense):
        vectors = [self.embed[k](cats[:, i]) for i, k in enumerate(FIELDS)]
        sparse = torch.cat([self.first[k](cats[:, i]) for i, k in enumerate(FIELDS)], dim=1)
        linear = self.dense_first(dense).squeeze(1) + sparse.sum(dim=1)
        h = torch.cat(vectors + [dense], dim=1)
        h = F.relu(self.deep1(h))
        h = F.relu(self.deep2(h))
        deep = self.out(h).squeeze(1)
        return linear + self.interactions(vectors) + deep


def l2_penalty(model):
    return torch.cat([emb.weight.flatten() for emb in model.embed.values()]).square().sum()


def payments(gen):
    cats = torch.stack([torch.randint(0, n, (BATCH,), generator=gen) for n in FIELDS.values()], dim=1)
    dense = torch.randn(BATCH, N_DENSE, generator=gen)
    label = (torch.rand(BATCH, generator=gen) < 0.2).float()
    return cats.to(DEVICE), dense.to(DEVICE), label.to(DEVICE)


def main(steps=6):
    torch.manual_seed(51)
    gen = torch.Generator().manual_seed(53)
    model = DeepFM().to(DEVICE)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1)
    torch_xla.sync()

    losses = []
    for _ in range(steps):
        cats, dense, label = payments(gen)
        logit = model(cats, dense)
        weight = torch.where(label > 0.5, 4.0, 1.0)
        bce = F.binary_cross_entropy_with_logits(logit, label, weight=weight)
        loss = bce + 1e-4 * l2_penalty(model)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        torch_xla.sync()
    print([f"{v.item():.7f}" for v in losses])
    return model, opt


if __name__ == "__main__":
    main()
