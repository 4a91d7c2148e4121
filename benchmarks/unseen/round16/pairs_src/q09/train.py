"""Rare-event detector for seismic traces: binary focal loss, focusing hardens over time."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset


def traces(n=240, length=48, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = 0.3 * torch.randn(n, 3, length, generator=g)
    y = (torch.rand(n, generator=g) < 0.15).float()
    onset = torch.randint(8, 32, (n,), generator=g)
    t = torch.arange(length)[None]
    wave = torch.exp(-0.15 * (t - onset[:, None]).clamp(min=0)) * (t >= onset[:, None])
    x += y[:, None, None] * wave[:, None]
    return TensorDataset(x, y)


class Picker(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.c1 = nn.Conv1d(3, w, 7, stride=2, padding=3)
        self.c2 = nn.Conv1d(w, w, 5, stride=2, padding=2)
        self.n1, self.n2 = nn.GroupNorm(3, w), nn.GroupNorm(3, w)
        self.att = nn.Conv1d(w, 1, 1)
        self.out = nn.Linear(w, 1)
        nn.init.constant_(self.out.bias, -1.7)

    def forward(self, x):
        h = F.elu(self.n1(self.c1(x)))
        h = F.elu(self.n2(self.c2(h)))
        a = self.att(h).softmax(-1)
        return self.out((a * h).sum(-1)).squeeze(-1)


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.75, gamma=1.5):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logit, y):
        ce = F.binary_cross_entropy_with_logits(logit, y, reduction="none")
        pt = torch.exp(-ce)
        w = self.alpha * y + (1 - self.alpha) * (1 - y)
        return (w * (1 - pt).pow(self.gamma) * ce).mean()


class Harden:
    def __init__(self, criterion, start, end, epochs):
        self.c, self.start, self.end, self.epochs = criterion, start, end, epochs

    def begin_epoch(self, epoch):
        frac = epoch / max(1, self.epochs - 1)
        self.c.gamma = self.start + frac * (self.end - self.start)


def main(epochs=4, batch=24):
    torch.manual_seed(3)
    device = torch_xla.device()
    net = Picker().to(device)
    criterion = FocalLoss()
    plan = Harden(criterion, 1.5, 3.0, epochs)
    opt = torch.optim.NAdam(net.parameters(), lr=4e-3)
    loader = DataLoader(traces(), batch_size=batch, shuffle=True)
    for epoch in range(epochs):
        plan.begin_epoch(epoch)
        losses = []
        for x, y in loader:
            loss = criterion(net(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            xm.mark_step()
            losses.append(loss.detach())
        print(f"epoch {epoch} focal {torch.stack(losses).mean().item():.4f}")


if __name__ == "__main__":
    main()
