# keyword spotting: TDNN with attentive statistics pooling
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
import torch_xla


@dataclass
class Config:
    n_mels: int = 12
    channels: int = 24
    words: int = 6
    batch_size: int = 8
    lr: float = 1e-3
    epochs: int = 2
    log_every: int = 6


class Utterances(Dataset):
    def __init__(self, n, cfg, seed=11):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            label = int(torch.randint(0, cfg.words, (1,), generator=g))
            frames = int(torch.randint(24, 49, (1,), generator=g))
            feats = torch.randn(frames, cfg.n_mels, generator=g)
            feats[:, label] += 1.0
            self.items.append((feats, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    feats, labels = zip(*batch)
    lengths = torch.tensor([f.size(0) for f in feats])
    x = pad_sequence(feats, batch_first=True)
    mask = torch.arange(x.size(1))[None] < lengths[:, None]
    return x.transpose(1, 2), mask, torch.tensor(labels)


class TDNNLayer(nn.Module):
    def __init__(self, cin, cout, k, d):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, dilation=d, padding=d * (k - 1) // 2)
        self.norm = nn.BatchNorm1d(cout)

    def forward(self, x):
        return self.norm(F.relu(self.conv(x)))


class XVector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg.channels
        self.frame = nn.Sequential(TDNNLayer(cfg.n_mels, c, 5, 1), TDNNLayer(c, c, 3, 2), TDNNLayer(c, c, 3, 3))
        self.att = nn.Sequential(nn.Conv1d(c, 8, 1), nn.Tanh(), nn.Conv1d(8, c, 1))
        self.head = nn.Sequential(nn.Linear(2 * c, 32), nn.ReLU(), nn.Linear(32, cfg.words))

    def forward(self, x, mask):
        h = self.frame(x)
        a = self.att(h).masked_fill(~mask[:, None], -1e4).softmax(-1)
        mean = (a * h).sum(-1)
        std = ((a * h * h).sum(-1) - mean * mean).clamp(min=1e-5).sqrt()
        return self.head(torch.cat([mean, std], dim=1))


def train(cfg):
    torch.manual_seed(1)
    device = torch_xla.device()
    loader = DataLoader(Utterances(64, cfg), batch_size=cfg.batch_size, shuffle=True, collate_fn=collate)
    model = XVector(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    step = 0
    for epoch in range(cfg.epochs):
        for x, mask, y in loader:
            x, mask, y = x.to(device), mask.to(device), y.to(device)
            optimizer.zero_grad()
            logits = model(x, mask)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            if step % cfg.log_every == 0:
                acc = (logits.argmax(-1) == y).float().mean()
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} acc {acc.item():.2f}")
            step += 1


train(Config())
