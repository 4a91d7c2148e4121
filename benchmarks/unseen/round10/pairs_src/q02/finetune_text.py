import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
import torch_xla

CFG = dict(vocab=120, dim=32, heads=4, layers=2, max_len=64, classes=5,
           batch_size=4, lr=5e-4, epochs=2, log_every=4)


class ReviewDataset(Dataset):
    def __init__(self, n, seed=26):
        rng = random.Random(seed)
        self.items = []
        for i in range(n):
            ln = rng.choice([8, 11, 14, 18])
            ids = [rng.randrange(2, CFG['vocab']) for _ in range(ln)]
            self.items.append((torch.tensor(ids), rng.randrange(CFG['classes'])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    ids, y = zip(*batch)
    ids = pad_sequence(ids, batch_first=True, padding_value=0)
    return ids, ids.eq(0), torch.tensor(y)


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, pad):
        y = self.ln1(x)
        x = x + self.attn(y, y, y, key_padding_mask=pad, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c['vocab'], c['dim'], padding_idx=0)
        self.pos = nn.Embedding(c['max_len'], c['dim'])
        self.blocks = nn.ModuleList(Block(c['dim'], c['heads']) for _ in range(c['layers']))
        self.norm = nn.LayerNorm(c['dim'])
        self.head = nn.Linear(c['dim'], c['classes'])

    def forward(self, ids, pad):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for b in self.blocks:
            x = b(x, pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        x = (self.norm(x) * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.head(x)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    dl = DataLoader(ReviewDataset(28), batch_size=CFG['batch_size'], shuffle=False, collate_fn=collate)
    model = Classifier(CFG).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=CFG['lr'], weight_decay=0.01)
    crit = nn.CrossEntropyLoss()
    it = 0
    for epoch in range(CFG['epochs']):
        for ids, pad, y in dl:
            ids, pad, y = ids.to(device), pad.to(device), y.to(device)
            opt.zero_grad()
            loss = crit(model(ids, pad), y)
            loss.backward()
            opt.step()
            torch_xla.sync()
            it += 1
            if it % CFG['log_every'] == 0:
                print(f'epoch {epoch} it {it} loss {loss.item():.4f}')


if __name__ == '__main__':
    main()
