import random

import torch
import torch.nn as nn
import torch_xla
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class ReviewDataset(Dataset):
    """Synthetic movie reviews: token ids and a sentiment label."""

    def __init__(self, n=48, vocab=200, seed=3):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            length = rng.randint(5, 30)
            self.items.append(([rng.randrange(1, vocab) for _ in range(length)], rng.randrange(2)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    tokens = [torch.tensor(t) for t, _ in batch]
    labels = torch.tensor([y for _, y in batch])
    return pad_sequence(tokens, batch_first=True), labels


class BowClassifier(nn.Module):
    def __init__(self, vocab=200, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.fc = nn.Linear(dim, 2)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        h = (self.emb(ids) * mask).sum(1) / mask.sum(1)
        return self.fc(h)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(ReviewDataset(), batch_size=4, shuffle=True, collate_fn=collate)
    model = BowClassifier().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    for step, (ids, labels) in enumerate(loader):
        ids, labels = ids.to(device), labels.to(device)
        opt.zero_grad()
        loss = loss_fn(model(ids), labels)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
