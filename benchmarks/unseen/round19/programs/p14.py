import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CHARS = 27
WIDTHS = (48, 72, 96)
HEIGHT = 16
CELL = 8


def make_lines(count, gen, rng):
    """Text lines rendered with one random glyph bitmap per character."""
    glyphs = torch.rand(CHARS, HEIGHT, CELL, generator=torch.Generator().manual_seed(1))
    lines = []
    for _ in range(count):
        n = rng.randint(3, WIDTHS[-1] // CELL)
        text = torch.randint(1, CHARS, (n,), generator=gen)
        image = torch.cat([glyphs[c] for c in text], dim=1)
        image = image + 0.2 * torch.randn(image.shape, generator=gen)
        lines.append((image, text))
    return lines


def fit_width(image, text):
    width = next(w for w in WIDTHS if w >= image.shape[1])
    padded = F.pad(image, (0, width - image.shape[1]))
    labels = F.pad(text, (0, width // CELL - text.shape[0]))
    return width, padded.unsqueeze(0), labels


class BucketLoader:
    def __init__(self, lines, batch_size, rng=None):
        self.batch_size = batch_size
        self.rng = rng
        self.groups = defaultdict(list)
        for image, text in lines:
            width, padded, labels = fit_width(image, text)
            self.groups[width].append((padded, labels))

    def __iter__(self):
        plan = []
        for width, items in self.groups.items():
            order = list(range(len(items)))
            if self.rng is not None:
                self.rng.shuffle(order)
            for i in range(0, len(order), self.batch_size):
                plan.append((width, order[i:i + self.batch_size]))
        if self.rng is not None:
            self.rng.shuffle(plan)
        for width, index in plan:
            chosen = [self.groups[width][i] for i in index]
            yield torch.stack([c[0] for c in chosen]), torch.stack([c[1] for c in chosen])


class LineReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 48, (HEIGHT // 4, 3), padding=(0, 1)), nn.ReLU(),
            nn.MaxPool2d((1, 2)),
        )
        self.mix = nn.Conv1d(48, 64, 3, padding=1)
        self.classify = nn.Conv1d(64, CHARS, 1)

    def forward(self, x):
        x = self.features(x).squeeze(2)
        return self.classify(F.relu(self.mix(x)))


@torch.no_grad()
def character_accuracy(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    seen = torch.zeros((), device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        keep = labels > 0
        right += ((model(images).argmax(1) == labels) & keep).sum()
        seen += keep.sum()
        torch_xla.sync()
    model.train()
    return (right / seen).item()


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    gen = torch.Generator().manual_seed(2)
    device = xm.xla_device()
    train = BucketLoader(make_lines(170, gen, rng), 12, rng)
    valid = BucketLoader(make_lines(50, gen, rng), 12)
    model = LineReader().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 8e-3, total_steps=100)

    for epoch in range(5):
        total = torch.zeros((), device=device)
        for images, labels in train:
            images, labels = images.to(device), labels.to(device)
            loss = F.cross_entropy(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
            torch_xla.sync()
        acc = character_accuracy(model, valid, device)
        print(f"epoch {epoch}: loss sum {total.item():.3f} accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
