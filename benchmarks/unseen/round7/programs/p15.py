"""Tabular classification in three phases: denoising pretraining, linear probe, full fine-tuning."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

COLUMNS, CLASSES, BATCH = 10, 3, 16


def make_table(n, seed):
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(CLASSES, COLUMNS, generator=g)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    x = mix[y] + torch.randn(n, COLUMNS, generator=g)
    return TensorDataset((x - x.mean(0)) / x.std(0), y)


class Tokenizer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(COLUMNS, dim))
        self.bias = nn.Parameter(torch.zeros(COLUMNS, dim))

    def forward(self, x):
        return x.unsqueeze(-1) * self.weight + self.bias


class Encoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.tokens = Tokenizer(dim)
        self.mix = nn.Linear(COLUMNS, COLUMNS)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = self.tokens(x)
        h = h + self.mix(h.transpose(1, 2)).transpose(1, 2)
        return self.drop(h + self.ff(h))


class Tabular(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.encoder = Encoder(dim)
        self.decoder = nn.Linear(dim, 1)
        self.head = nn.Linear(dim, CLASSES)

    def reconstruct(self, x):
        return self.decoder(self.encoder(x)).squeeze(-1)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


class Phase:
    def __init__(self, name, lr, epochs):
        self.name, self.lr, self.epochs = name, lr, epochs

    def trainable(self, model):
        return model.parameters()

    def loss(self, model, x, y):
        return F.cross_entropy(model(x), y)


class Denoise(Phase):
    def trainable(self, model):
        return list(model.encoder.parameters()) + list(model.decoder.parameters())

    def loss(self, model, x, y):
        keep = (torch.rand_like(x) > 0.3).float()
        return F.mse_loss(model.reconstruct(x * keep), x)


class Probe(Phase):
    def trainable(self, model):
        return model.head.parameters()


class FineTune(Phase):
    def trainable(self, model):
        return list(model.encoder.parameters()) + list(model.head.parameters())


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    for x, y in loader:
        hits += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        xm.mark_step()
    model.train()
    return hits.item() / len(loader.dataset)


def run_phase(phase, model, loader, valid, device):
    chosen = {id(p) for p in phase.trainable(model)}
    for p in model.parameters():
        p.requires_grad_(id(p) in chosen)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=phase.lr)
    for epoch in range(phase.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = phase.loss(model, x.to(device), y.to(device))
            loss.backward()
            optimizer.step()
            xm.mark_step()
        for group in optimizer.param_groups:
            group['lr'] *= 0.7
    print(f'{phase.name}: loss {loss.item():.3f} accuracy {evaluate(model, valid, device):.2f}')


def main():
    torch.manual_seed(12)
    device = torch_xla.device()
    loader = DataLoader(make_table(80, 1), batch_size=BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(make_table(32, 2), batch_size=BATCH)
    model = Tabular().to(device)
    phases = [Denoise('denoise', 3e-3, 3), Probe('probe', 1e-2, 3), FineTune('finetune', 1e-3, 3)]
    xm.mark_step()
    for phase in phases:
        run_phase(phase, model, loader, valid, device)


if __name__ == '__main__':
    main()
