"""Fine-tuning an ECG beat classifier: head first, then the whole network.

The backbone is "pretrained" with a random projection task so that the file is
self-contained; fine-tuning starts with frozen features for a few steps.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

LEADS = 2
LENGTH = 64
CLASSES = 4
BATCH = 16
HEAD_STEPS = 10
TOTAL_STEPS = 66
EVAL_EVERY = 11


def synth_beats(n, seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, LENGTH)
    y = rng.integers(0, CLASSES, n)
    width = 0.03 + 0.02 * y + rng.normal(0, 0.004, n)
    pos = 0.45 + rng.normal(0, 0.03, n)
    qrs = np.exp(-((t[None] - pos[:, None]) / width[:, None]) ** 2)
    tw = 0.3 * (1 - 2 * (y[:, None] == 2)) * np.exp(-((t[None] - 0.75) / 0.08) ** 2)
    lead1 = qrs + tw
    lead2 = 0.6 * qrs - 0.2 * tw
    x = np.stack([lead1, lead2], 1) + rng.normal(0, 0.1, (n, LEADS, LENGTH))
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv1d(c, c, 5, padding=2, bias=False)
        self.bn1 = nn.BatchNorm1d(c)
        self.conv2 = nn.Conv1d(c, c, 5, padding=2, bias=False)
        self.bn2 = nn.BatchNorm1d(c)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(h)))


class BeatNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(LEADS, c, 7, stride=2, padding=3), nn.ReLU(),
            ResBlock(c), ResBlock(c), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Linear(c, CLASSES)

    def forward(self, x):
        return self.head(self.backbone(x))

    def freeze_backbone(self):
        self.backbone.requires_grad_(False)

    def unfreeze(self):
        self.backbone.requires_grad_(True)


def build_optimizer(model, head_lr, backbone_lr):
    return torch.optim.Adam([
        {"params": model.head.parameters(), "lr": head_lr},
        {"params": model.backbone.parameters(), "lr": backbone_lr},
    ])


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    nll = torch.zeros((), device=device)
    n = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        logits = model(x)
        nll += F.cross_entropy(logits, y, reduction="sum")
        correct += (logits.argmax(1) == y).sum()
        n += len(y)
        torch_xla.sync()
    model.train()
    return nll.item() / n, correct.item() / n


def infinite(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(17)
    device = xm.xla_device()
    train_loader = DataLoader(synth_beats(320, 1), BATCH, shuffle=True, drop_last=True)
    val_loader = DataLoader(synth_beats(72, 2), batch_size=32)

    model = BeatNet().to(device)
    model.freeze_backbone()
    optimizer = build_optimizer(model, head_lr=5e-3, backbone_lr=1e-3)
    best = float("inf")
    best_state = None

    batches = infinite(train_loader)
    for step in range(TOTAL_STEPS):
        if step == HEAD_STEPS:
            model.unfreeze()
        x, y = next(batches)
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        if (step + 1) % EVAL_EVERY == 0:
            nll, acc = evaluate(model, val_loader, device)
            print(f"step {step + 1:3d} train {loss.item():.3f} val {nll:.3f} acc {acc:.3f}")
            if nll < best:
                best = nll
                best_state = {k: v.cpu() for k, v in model.state_dict().items()}

    print(f"best val nll {best:.3f}, {len(best_state)} tensors kept")


if __name__ == "__main__":
    main()
