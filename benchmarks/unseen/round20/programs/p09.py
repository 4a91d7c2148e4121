"""Word classification from mouth-landmark tracks of different lengths."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler
import torch_xla

WORDS = 6
LANDMARKS = 20
BOUNDARIES = (8, 12, 16, 24)


class Clips(Dataset):
    def __init__(self, n, seed):
        rnd = random.Random(seed)
        g = torch.Generator().manual_seed(seed)
        shapes = torch.randn(WORDS, LANDMARKS, generator=g)
        self.items = []
        for _ in range(n):
            frames, word = rnd.randint(5, 24), rnd.randrange(WORDS)
            opening = torch.sin(torch.linspace(0, 3.14, frames)).unsqueeze(1)
            track = opening * shapes[word] + 0.3 * torch.randn(frames, LANDMARKS, generator=g)
            self.items.append((track, word))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def room(frames):
    return next(b for b in BOUNDARIES if frames <= b)


class ByLength(Sampler):
    """Full batches of clips that fit the same room; leftovers wait for the next epoch."""

    def __init__(self, clips, batch, seed):
        self.batch, self.rnd = batch, random.Random(seed)
        self.groups = {b: [] for b in BOUNDARIES}
        for i, (track, _) in enumerate(clips.items):
            self.groups[room(len(track))].append(i)

    def __iter__(self):
        batches = []
        for members in self.groups.values():
            order = self.rnd.sample(members, len(members))
            full = len(order) - len(order) % self.batch
            batches += [order[k:k + self.batch] for k in range(0, full, self.batch)]
        self.rnd.shuffle(batches)
        return iter(batches)


def collate(clips):
    length = room(max(len(t) for t, _ in clips))
    video = torch.zeros(len(clips), length, LANDMARKS)
    mask = torch.zeros(len(clips), length)
    for i, (t, _) in enumerate(clips):
        video[i, :len(t)] = t
        mask[i, :len(t)] = 1.0
    return video, mask, torch.tensor([w for _, w in clips])


class LipReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(LANDMARKS, 24, 3, padding=1)
        self.back = nn.Conv1d(24, 24, 3, padding=1)
        self.word = nn.Linear(24, WORDS)

    def forward(self, video, mask):
        h = torch.relu(self.front(video.transpose(1, 2)))
        h = torch.relu(self.back(h)) * mask.unsqueeze(1)
        return self.word(h.sum(2) / mask.sum(1, keepdim=True))


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    clips = Clips(72, seed=9)
    loader = DataLoader(clips, batch_sampler=ByLength(clips, batch=4, seed=10), collate_fn=collate)
    model = LipReader().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    for epoch in range(3):
        seen, hits = 0, torch.zeros((), device=device)
        for video, mask, word in loader:
            video, mask, word = video.to(device), mask.to(device), word.to(device)
            scores = model(video, mask)
            loss = nn.functional.cross_entropy(scores, word, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += (scores.argmax(1) == word).sum()
            seen += len(word)
            torch_xla.sync()
        schedule.step()
        print(f"epoch {epoch}: {seen} clips, accuracy {hits.item() / seen:.3f}, lr {schedule.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
