"""Sentence-pair similarity with gradient accumulation by token budget (an update when enough real tokens were seen)."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, MAX_LEN = 200, 24
TOKENS_PER_UPDATE = 420


class Pairs(Dataset):
    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = []
        for _ in range(n):
            k = r.randint(4, MAX_LEN)
            a = [r.randrange(1, VOCAB) for _ in range(k)]
            b = [t if r.random() < 0.7 else r.randrange(1, VOCAB) for t in a]
            self.rows.append((a, b))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    def pad(seqs):
        return torch.tensor([s + [0] * (MAX_LEN - len(s)) for s in seqs])
    a, b = zip(*rows)
    return {"a": pad(a), "b": pad(b), "tokens": sum(len(s) for s in a + b)}


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, ids):
        live = (ids > 0).float()
        h = self.enc(self.emb(ids), src_key_padding_mask=ids == 0)
        h = (h * live[..., None]).sum(1) / live.sum(1, keepdim=True)
        return F.normalize(h, dim=-1)


class Trainer:
    def __init__(self, model, lr, device):
        self.model, self.device = model, device
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.seen_tokens = 0
        self.updates = 0
        self.running = torch.zeros(1).to(device)

    def contrastive(self, batch):
        za = self.model(batch["a"].to(self.device))
        zb = self.model(batch["b"].to(self.device))
        logits = za @ zb.t() / 0.07
        target = torch.arange(logits.shape[0], device=self.device)
        return F.cross_entropy(logits, target)

    def fit(self, loader, epochs):
        self.model.train()
        self.opt.zero_grad(set_to_none=False)
        for epoch in range(epochs):
            for batch in loader:
                loss = self.contrastive(batch)
                loss.backward()
                self.running += loss.detach()
                self.seen_tokens += batch["tokens"]
                if self.seen_tokens >= TOKENS_PER_UPDATE:
                    self.update()
            print(f"epoch {epoch}: {self.updates} updates, loss sum {self.running.item():.3f}")
            self.running = torch.zeros(1).to(self.device)

    def update(self):
        for p in self.model.parameters():
            p.grad.mul_(1.0 / self.seen_tokens * 100)
        xm.optimizer_step(self.opt)
        self.opt.zero_grad(set_to_none=False)
        self.seen_tokens = 0
        self.updates += 1
        torch_xla.sync()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Encoder().to(device)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch_xla.sync()
    g = torch.Generator().manual_seed(1)
    loader = DataLoader(Pairs(96, 0), batch_size=4, shuffle=True, drop_last=True, collate_fn=collate, generator=g)
    Trainer(model, 1e-3, device).fit(loader, epochs=2)


if __name__ == "__main__":
    main()
