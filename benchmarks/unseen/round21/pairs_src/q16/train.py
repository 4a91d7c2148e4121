import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Backbone(nn.Module):
    def __init__(self, channels=3, width=8):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return x.mean(-1)


class Classifier(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


class FineTuner:
    def __init__(self, device, head_only_steps=3):
        self.device = device
        self.model = Classifier().to(device)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.head_only_steps = head_only_steps

    def set_trainable(self, step):
        train_all = step >= self.head_only_steps
        for p in self.model.backbone.parameters():
            p.requires_grad_(train_all)

    def fit(self, signals, labels):
        for step, (x, y) in enumerate(zip(signals, labels)):
            self.set_trainable(step)
            x, y = x.to(self.device), y.to(self.device)
            self.optim.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optim.step()
            xm.mark_step()
            print(step, round(loss.item(), 4))


def main():
    torch.manual_seed(12)
    signals = torch.randn(7, 8, 3, 16)
    labels = signals.mean(-1).argmax(-1)
    FineTuner(torch_xla.device()).fit(signals, labels)


if __name__ == "__main__":
    main()
