"""Fine-tuning a small image encoder: the head first, then everything, with an EMA copy."""
import copy

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 3
SIDE = 10


class Encoder(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        return torch.relu(self.conv2(x)).mean(dim=(2, 3))


class Classifier(nn.Module):
    def __init__(self, encoder, features):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(features, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(x))


def textures(n, seed):
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (n,), generator=gen)
    grid = torch.arange(SIDE).float()
    stripes = torch.stack([torch.sin(grid * (0.6 + 0.9 * c)) for c in range(CLASSES)])
    images = stripes[labels][:, None, None, :].expand(-1, 1, SIDE, -1)
    return TensorDataset(images + 0.4 * torch.randn(n, 1, SIDE, SIDE, generator=gen), labels)


class FineTuner:
    def __init__(self, model, device, warm_epochs=1, decay=0.9):
        self.model = model.to(device)
        self.ema = copy.deepcopy(self.model)
        self.device = device
        self.warm_epochs = warm_epochs
        self.decay = decay
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=3, gamma=0.5)
        self.criterion = nn.CrossEntropyLoss()

    def freeze_encoder(self, frozen):
        for p in self.model.encoder.parameters():
            p.requires_grad_(not frozen)

    @torch.no_grad()
    def update_ema(self):
        for averaged, p in zip(self.ema.parameters(), self.model.parameters()):
            averaged.mul_(self.decay).add_(p, alpha=1 - self.decay)

    def train_epoch(self, loader):
        for images, labels in loader:
            images, labels = images.to(self.device), labels.to(self.device)
            self.optimizer.zero_grad()
            self.criterion(self.model(images), labels).backward()
            self.optimizer.step()
            self.update_ema()
            torch_xla.sync()

    @torch.no_grad()
    def accuracy(self, model, loader):
        correct = torch.zeros((), dtype=torch.long, device=self.device)
        for images, labels in loader:
            pred = model(images.to(self.device)).argmax(dim=1)
            correct += (pred == labels.to(self.device)).sum()
            torch_xla.sync()
        return correct.item() / len(loader.dataset)

    def fit(self, train, valid, epochs):
        for epoch in range(epochs):
            self.freeze_encoder(epoch < self.warm_epochs)
            self.train_epoch(train)
            self.scheduler.step()
            raw, avg = self.accuracy(self.model, valid), self.accuracy(self.ema, valid)
            print(f"epoch {epoch}: accuracy {raw:.3f}, averaged {avg:.3f}")


def main():
    torch.manual_seed(4)
    train = DataLoader(textures(56, seed=1), batch_size=8, shuffle=True, drop_last=True,
                       generator=torch.Generator().manual_seed(0))
    valid = DataLoader(textures(21, seed=2), batch_size=8)
    tuner = FineTuner(Classifier(Encoder(), 12), torch_xla.device())
    tuner.fit(train, valid, epochs=6)


if __name__ == "__main__":
    main()
