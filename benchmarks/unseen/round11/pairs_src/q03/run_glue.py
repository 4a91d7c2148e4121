import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    vocab: int = 200
    dim: int = 32
    heads: int = 4
    layers: int = 2
    max_len: int = 48
    pad_id: int = 0
    lr: float = 5e-4
    batch_size: int = 8


class SentencePairs(Dataset):
    def __init__(self, n, cfg):
        rng = random.Random(3)
        self.rows = []
        for _ in range(n):
            ln = rng.choice([10] * 9 + [16])
            self.rows.append(([rng.randint(2, cfg.vocab - 1) for _ in range(ln)], rng.randint(0, 2)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Collator:
    def __init__(self, cfg):
        self.cfg = cfg

    def __call__(self, rows):
        width = min(self.cfg.max_len, max(len(ids) for ids, _ in rows))
        ids = torch.full((len(rows), width), self.cfg.pad_id)
        for r, (tok, _) in enumerate(rows):
            ids[r, :len(tok)] = torch.tensor(tok[:width])
        return {"input_ids": ids, "mask": ids.ne(self.cfg.pad_id), "labels": torch.tensor([y for _, y in rows])}


class Classifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=cfg.pad_id)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.blocks = nn.ModuleList([
            nn.TransformerEncoderLayer(cfg.dim, cfg.heads, cfg.dim * 2, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.out = nn.Linear(cfg.dim, 3)

    def forward(self, input_ids, mask):
        pos = torch.arange(input_ids.size(1), device=input_ids.device)
        h = self.tok(input_ids) + self.pos(pos)
        for b in self.blocks:
            h = b(h, src_key_padding_mask=~mask)
        m = mask.unsqueeze(-1).float()
        return self.out((self.norm(h) * m).sum(1) / m.sum(1))


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(SentencePairs(64, cfg), cfg.batch_size, shuffle=False, collate_fn=Collator(cfg), drop_last=True)
    model = Classifier(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    for epoch in range(2):
        for step, batch in enumerate(loader):
            batch = {k: v.to(device) for k, v in batch.items()}
            logits = model(batch["input_ids"], batch["mask"])
            loss = F.cross_entropy(logits, batch["labels"])
            loss.backward()
            opt.step()
            opt.zero_grad()
            torch_xla.sync()
        print(f"epoch {epoch}: loss={loss.item():.4f}")


if __name__ == "__main__":
    train(Config())
