"""Multi-label tagging of bird-song spectrogram patches with an asymmetric loss."""
import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

SPECIES = 7
MELS, FRAMES = 16, 12
BATCH = 8
STEPS = 20


class AsymmetricLoss(nn.Module):
    """Easy negatives are down-weighted more strongly than positives."""

    def __init__(self, gamma_pos=1.0, gamma_neg=4.0, margin=0.05, rampup=1):
        super().__init__()
        self.gamma_pos = gamma_pos
        self.gamma_neg = gamma_neg
        self.margin = margin
        self.rampup = rampup
        self.seen = 0

    def focus(self):
        return self.gamma_neg * min(1.0, (self.seen + 1) / self.rampup)

    def step(self):
        self.seen += 1

    def forward(self, logits, targets):
        p = torch.sigmoid(logits)
        q = (1 - p + self.margin).clamp(max=1.0)
        pos = targets * torch.log(p.clamp(min=1e-6)) * (1 - p) ** self.gamma_pos
        neg = (1 - targets) * torch.log(q.clamp(min=1e-6))
        neg = neg * (1 - q + 1e-6) ** self.focus()
        return -(pos + neg).sum(-1).mean()


class Tagger(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.rnn_in = nn.Linear(MELS, width)
        self.mix = nn.Linear(FRAMES, FRAMES)
        self.norm = nn.LayerNorm(width)
        self.att = nn.Linear(width, SPECIES)
        self.cla = nn.Linear(width, SPECIES)

    def forward(self, x):
        h = torch.relu(self.rnn_in(x))
        h = self.norm(h + self.mix(h.transpose(1, 2)).transpose(1, 2))
        w = torch.softmax(self.att(h), dim=1)
        return (w * self.cla(h)).sum(1)


def make_patches(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, SPECIES, generator=g) < 0.2).float()
    songs = torch.randn(SPECIES, FRAMES, MELS, generator=g)
    x = torch.einsum("ns,sfm->nfm", y, songs)
    return TensorDataset(x + 0.4 * torch.randn(n, FRAMES, MELS, generator=g), y)


def main():
    torch.manual_seed(29)
    device = torch_xla.device()
    loader = DataLoader(make_patches(BATCH * STEPS // 2, 29), BATCH, shuffle=True, drop_last=True)
    model = Tagger().to(device)
    criterion = AsymmetricLoss(rampup=STEPS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=5)

    model.train()
    for epoch in range(2):
        total = torch.zeros((), device=device)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            criterion.step()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach()
            torch_xla.sync()
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f} gamma {criterion.focus():.2f}")


if __name__ == "__main__":
    main()
