"""Keyword spotting on synthetic log-mel spectrograms with SpecAugment-style masking."""
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

N_MELS = 16
FRAMES = 20
KEYWORDS = 4
BATCH = 8
EPOCHS = 3


def synth_clips(n, seed):
    """Each keyword is a chirp with its own start band and slope, plus noise."""
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, KEYWORDS, (n,), generator=gen)
    clips = 0.3 * torch.randn(n, 1, N_MELS, FRAMES, generator=gen)
    for i, word in enumerate(labels.tolist()):
        for t in range(FRAMES):
            band = (3 * word + (t * (word + 1)) // 6) % N_MELS
            clips[i, 0, band, t] += 2.0
    return clips, labels


class SpecAugment:
    """Blanks one band of mel channels and one span of frames per batch."""

    def __init__(self, freq_width, time_width, seed):
        self.freq_width = freq_width
        self.time_width = time_width
        self.rng = random.Random(seed)

    def _span(self, limit, size):
        width = self.rng.randint(1, limit)
        start = self.rng.randint(0, size - width)
        return start, start + width

    def __call__(self, clips):
        clips = clips.clone()
        low, high = self._span(self.freq_width, clips.size(2))
        clips[:, :, low:high, :] = 0.0
        begin, end = self._span(self.time_width, clips.size(3))
        clips[:, :, :, begin:end] = 0.0
        return clips


class KeywordNet(nn.Module):
    """Shared per-frame projection, then a linear read-out over the whole clip."""

    def __init__(self, channels=6):
        super().__init__()
        self.frame = nn.Linear(N_MELS, channels)
        self.classify = nn.Linear(channels * FRAMES, KEYWORDS)

    def forward(self, clips):
        frames = clips.squeeze(1).transpose(1, 2)
        return self.classify(torch.relu(self.frame(frames)).flatten(1))


def train_epoch(model, loader, optimizer, augment, device):
    criterion = nn.CrossEntropyLoss()
    model.train()
    total = torch.zeros((), device=device)
    for clips, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(augment(clips)), labels)
        loss.backward()
        optimizer.step()
        total = total + loss.detach()
    torch_xla.sync()
    return total.item() / len(loader)


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    dataset = TensorDataset(*synth_clips(80, seed=8))
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(1))
    device_loader = pl.MpDeviceLoader(loader, device)
    model = KeywordNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    augment = SpecAugment(freq_width=4, time_width=6, seed=13)
    for epoch in range(EPOCHS):
        mean_loss = train_epoch(model, device_loader, optimizer, augment, device)
        print(f"epoch {epoch}: mean loss {mean_loss:.4f}")


if __name__ == "__main__":
    main()
