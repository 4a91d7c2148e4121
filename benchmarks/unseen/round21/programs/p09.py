"""Surface-defect classifier for colour line-scan patches with white-balance augmentation."""
import random

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 3
SIDE = 8
BATCH = 8
EPOCHS = 4


def make_patches(n, seed):
    """Steel-grey patches; scratches, rust spots and clean ones differ in colour and shape."""
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (n,), generator=gen)
    patches = 0.5 + 0.08 * torch.randn(n, 3, SIDE, SIDE, generator=gen)
    for i, kind in enumerate(labels.tolist()):
        at = int(torch.randint(1, SIDE - 2, (1,), generator=gen))
        if kind == 1:
            patches[i, :, at, :] += 0.4
        elif kind == 2:
            patches[i, 0, at:at + 2, at:at + 2] += 0.5
    return patches.clamp(0.0, 1.0), labels


class WhiteBalance:
    """Simulates lamp drift: one gain per colour channel, shared by the batch."""

    def __init__(self, spread, seed):
        self.spread = spread
        self.rng = random.Random(seed)
        self.gains = [1.0, 1.0, 1.0]

    def draw(self):
        low, high = 1.0 - self.spread, 1.0 + self.spread
        self.gains = [round(self.rng.uniform(low, high), 1) for _ in range(3)]

    def __call__(self, patches):
        self.draw()
        channels = [patches[:, c] * gain for c, gain in enumerate(self.gains)]
        return torch.stack(channels, dim=1)


class DefectNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.hidden = nn.Linear(3 * SIDE * SIDE, width)
        self.out = nn.Linear(width, CLASSES)

    def forward(self, patches):
        x = ((patches - 0.5) / 0.25).flatten(1)
        return self.out(torch.relu(self.hidden(x)))


class Trainer:
    def __init__(self, model, device, balance):
        self.model = model.to(device)
        self.device = device
        self.balance = balance
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.03, momentum=0.9)

    def train_step(self, patches, labels):
        patches, labels = patches.to(self.device), labels.to(self.device)
        self.optimizer.zero_grad()
        logits = self.model(self.balance(patches))
        loss = self.criterion(logits, labels)
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        return loss.detach()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            losses = [self.train_step(patches, labels) for patches, labels in loader]
            mean_loss = sum(loss.item() for loss in losses) / len(losses)
            gains = "/".join(f"{g:.1f}" for g in self.balance.gains)
            print(f"epoch {epoch}: loss {mean_loss:.4f} (last gains {gains})")


def main():
    torch.manual_seed(6)
    data = TensorDataset(*make_patches(72, seed=14))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(15))
    trainer = Trainer(DefectNet(), torch_xla.device(), WhiteBalance(spread=0.2, seed=16))
    trainer.fit(loader, EPOCHS)


if __name__ == "__main__":
    main()
