"""DeepFM click model.

The model is split into its three terms so that each one can be ablated.
"""
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

CARDINALITIES = (11, 7, 23, 5)
NUM_DENSE = 6


class Tower(nn.Module):
    def __init__(self, width_in, hidden):
        super().__init__()
        self.fc3 = nn.Linear(hidden, 1)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc1 = nn.Linear(width_in, hidden)

    def forward(self, stacked):
        x = stacked.flatten(1)
        for layer in (self.fc1, self.fc2):
            x = layer(x).relu()
        return self.fc3(x)[:, 0]


class FirstOrder(nn.Module):
    def __init__(self, cards, num_dense):
        super().__init__()
        self.linear = nn.ModuleList([nn.Embedding(c, 1) for c in cards])
        self.dense_w = nn.Linear(num_dense, 1)

    def forward(self, columns, numeric):
        total = self.dense_w(numeric)[:, 0]
        for table, col in zip(self.linear, columns):
            total = total + table(col)[:, 0]
        return total


class Interaction(nn.Module):
    def __init__(self, cards, num_dense, dim):
        super().__init__()
        self.dense_k = nn.Linear(num_dense, dim)
        self.factors = nn.ModuleList([nn.Embedding(c, dim) for c in cards])

    def stack(self, columns, numeric):
        projected = self.dense_k(numeric)
        looked_up = [table(col) for table, col in zip(self.factors, columns)]
        return torch.stack(looked_up + [projected], dim=1)

    @staticmethod
    def pairwise(stacked):
        total = stacked.sum(dim=1)
        diff = total.mul(total) - stacked.mul(stacked).sum(dim=1)
        return diff.mul(0.5).sum(dim=-1)


class DeepFM(nn.Module):
    def __init__(self, dim=8, hidden=24):
        super().__init__()
        n = len(CARDINALITIES) + 1
        self.tower = Tower(n * dim, hidden)
        self.interaction = Interaction(CARDINALITIES, NUM_DENSE, dim)
        self.first = FirstOrder(CARDINALITIES, NUM_DENSE)

    def forward(self, cats, numeric):
        columns = cats.unbind(1)
        stacked = self.interaction.stack(columns, numeric)
        deep = self.tower(stacked)
        pair = self.interaction.pairwise(stacked)
        return pair + self.first(columns, numeric) + deep


def bce_with_logits(z, target):
    softplus = torch.log1p(torch.exp(-torch.abs(z)))
    return (z.clamp(min=0) - z * target + softplus).mean()


def generate(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    cats = torch.stack([torch.randint(0, m, (n,), generator=g) for m in CARDINALITIES], 1)
    numeric = torch.randn(n, NUM_DENSE, generator=g)
    clicked = ((cats.sum(1) % 3 == 0) ^ (numeric[:, 0] > 0.5)).float()
    return cats, numeric, clicked


@torch.no_grad()
def reset(model, seed):
    g = torch.Generator().manual_seed(seed)
    named = {n.split(".", 1)[1]: p for n, p in model.named_parameters()}
    for key in sorted(named):
        named[key].copy_(0.2 * torch.randn(named[key].shape, generator=g))


def train_step(model, opt, cats, numeric, clicked):
    opt.zero_grad()
    z = model(cats, numeric)
    loss = bce_with_logits(z, clicked)
    loss.backward()
    opt.step()
    hit_rate = torch.eq(z.detach() > 0, clicked > 0.5).float().mean()
    xm.mark_step()
    return loss, hit_rate


def main(steps=4, bs=32):
    device = torch_xla.device()
    model = DeepFM()
    reset(model, 17)
    model.to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03, eps=1e-8, foreach=False)
    for state in opt.state.values():
        state["sum"] = state["sum"].to(device)
    xm.mark_step()
    data = generate(bs * steps)
    for i in range(steps):
        batch = [a[i * bs:(i + 1) * bs].to(device) for a in data]
        loss, hit_rate = train_step(model, opt, *batch)
        print(f"{i} loss {loss.item():.9f} hit rate {hit_rate.item():.3f}")
    total = sum(p.double().abs().sum().item() for p in model.cpu().parameters())
    print(f"checksum {total:.9f}")


if __name__ == "__main__":
    main()
