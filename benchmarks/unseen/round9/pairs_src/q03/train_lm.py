"""Sentence classification with a small transformer, own tokenizer."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

PAD = 0


@dataclass
class Config:
    vocab: int = 120
    d_model: int = 32
    heads: int = 4
    layers: int = 2
    classes: int = 5
    max_len: int = 64
    batch_size: int = 8
    lr: float = 5e-4
    epochs: int = 2


class Reviews(Dataset):
    def __init__(self, n, cfg, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            label = rng.randrange(cfg.classes)
            length = rng.randint(14, 30)
            ids = [rng.randrange(1, cfg.vocab) for _ in range(length)]
            ids[0] = 1 + label
            self.rows.append((ids, label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(batch):
    seqs, labels = zip(*batch)
    seqs = [torch.tensor(s) for s in seqs]
    ids = nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=PAD)
    return ids, torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.d_model, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(cfg.max_len, cfg.d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(cfg.d_model, cfg.heads, 64, dropout=0.0,
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.d_model)
        self.head = nn.Linear(cfg.d_model, cfg.classes)

    def forward(self, ids):
        pad = ids.eq(PAD)
        h = self.tok(ids) + self.pos[: ids.shape[1]]
        h = self.norm(self.encoder(h, src_key_padding_mask=pad))
        keep = (~pad).unsqueeze(-1).to(h.dtype)
        pooled = (h * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.head(pooled)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = Classifier(cfg).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=0.01)
        self.criterion = nn.CrossEntropyLoss()
        self.loader = DataLoader(Reviews(64, cfg, 7), batch_size=cfg.batch_size, shuffle=True,
                                 collate_fn=collate, drop_last=True)
        self.step = 0

    def train_epoch(self, epoch):
        self.model.train()
        for ids, labels in self.loader:
            ids, labels = ids.to(self.device), labels.to(self.device)
            self.opt.zero_grad()
            loss = self.criterion(self.model(ids), labels)
            loss.backward()
            xm.optimizer_step(self.opt)
            torch_xla.sync()
            self.step += 1
            if self.step % 5 == 0:
                print(f"epoch {epoch} step {self.step} loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(11)
    trainer = Trainer(Config())
    for e in range(trainer.cfg.epochs):
        trainer.train_epoch(e)
