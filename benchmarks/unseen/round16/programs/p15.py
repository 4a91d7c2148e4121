"""Two-tower retrieval of recipes from pantry contents, InfoNCE with a smoothed
temperature so that the softmax does not sharpen faster than the towers learn."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

VOCAB = 120
BAG = 10


class PantryRecipes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.recipe = torch.randint(0, VOCAB, (n, BAG), generator=g)
        swap = torch.randint(0, VOCAB, (n, BAG), generator=g)
        keep = torch.rand(n, BAG, generator=g) < 0.7
        self.pantry = torch.where(keep, self.recipe, swap)

    def __len__(self):
        return len(self.recipe)

    def __getitem__(self, i):
        return {"pantry": self.pantry[i], "recipe": self.recipe[i]}


class Tower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.mix = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim))

    def forward(self, ids):
        return F.normalize(self.mix(self.emb(ids).mean(1)), dim=-1)


class SmoothedTemperature(nn.Module):
    """A learned log-scale, used through its running average."""

    def __init__(self, init=0.1, momentum=0.9, ceiling=50.0):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / init)))
        self.momentum = momentum
        self.ceiling = math.log(ceiling)
        self.average = None

    def forward(self):
        if self.average is None:
            self.average = self.log_scale.detach().clone()
        self.average = torch.lerp(self.average, self.log_scale, 1 - self.momentum)
        return self.average.clamp(max=self.ceiling).exp()


class Retriever(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.query = Tower(dim)
        self.item = Tower(dim)
        self.temperature = SmoothedTemperature()

    def forward(self, batch):
        q, k = self.query(batch["pantry"]), self.item(batch["recipe"])
        return self.temperature() * q @ k.t()


def info_nce(logits):
    truth = torch.arange(logits.shape[0], device=logits.device)
    return 0.5 * (F.cross_entropy(logits, truth) + F.cross_entropy(logits.t(), truth))


@torch.no_grad()
def recall_at(model, batch, k):
    q, items = model.query(batch["pantry"]), model.item(batch["recipe"])
    top = (q @ items.t()).topk(k, dim=1).indices
    truth = torch.arange(len(q), device=q.device).unsqueeze(1)
    return (top == truth).any(1).float().mean()


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


def train(epochs=2, batch_size=16, lr=5e-3):
    torch.manual_seed(2)
    device = torch_xla.device()
    train_set, val_set = PantryRecipes(256, 1), PantryRecipes(64, 2)
    loader = DataLoader(train_set, batch_size, shuffle=True, drop_last=True)
    val = to_device(next(iter(DataLoader(val_set, len(val_set)))), device)

    model = Retriever().to(device)
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    rest = [p for n, p in model.named_parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                             {"params": rest, "weight_decay": 0.0}], lr=lr)
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for batch in loader:
            batch = to_device(batch, device)
            with torch_xla.step():
                opt.zero_grad()
                loss = info_nce(model(batch))
                loss.backward()
                opt.step()
                total += loss.detach()
        model.eval()
        recall = recall_at(model, val, 5)
        model.train()
        print(f"epoch {epoch}  loss {total.item() / len(loader):.4f}  "
              f"R@5 {recall.item():.3f}  scale {model.temperature.average.exp().item():.2f}")


if __name__ == "__main__":
    train()
