import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.25):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = p * target + (1 - p) * (1 - target)
        at = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (at * (1 - pt) ** self.gamma * ce).mean()


class GammaAnneal:
    """Move the focusing parameter from its start to its end over training."""

    def __init__(self, loss, start, end, steps):
        self.loss, self.start, self.end, self.steps = loss, start, end, steps

    def on_step(self, i):
        self.loss.gamma = self.start + (self.end - self.start) * i / self.steps


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)).to(device)
    criterion = FocalLoss()
    callbacks = [GammaAnneal(criterion, 0.5, 2.5, 10)]
    opt = torch.optim.Adam(model.parameters())
    for i in range(10):
        for cb in callbacks:
            cb.on_step(i)
        x = torch.randn(8, 10).to(device)
        y = (torch.rand(8, 3) < 0.2).float().to(device)
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if i % 5 == 4:
            print(i, loss.item())


main()
