"""Activity recognition from accelerometer windows with gradual magnitude pruning."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 21
BATCH = 32
CHANNELS = 6
WINDOW = 64
CLASSES = 5
STEPS = 60


class TemporalNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.conv1 = nn.Conv1d(CHANNELS, width, 5, padding=2)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2, stride=2)
        self.conv3 = nn.Conv1d(width, 2 * width, 3, padding=1, stride=2)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.fc = nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = F.relu(self.conv2(h))
        h = F.relu(self.norm(self.conv3(h)))
        return self.fc(h.mean(dim=-1))


class MagnitudePruner:
    """Zhu & Gupta style cubic sparsity ramp, one mask per weight tensor."""

    def __init__(self, model, final_sparsity=0.8, begin=8, end=52, every=4):
        self.final_sparsity = final_sparsity
        self.begin, self.end, self.every = begin, end, every
        self.params = {n: p for n, p in model.named_parameters() if p.dim() > 1 and "fc" not in n}
        self.masks = {n: torch.ones_like(p) for n, p in self.params.items()}

    def sparsity(self, step):
        frac = (step - self.begin) / (self.end - self.begin)
        frac = min(max(frac, 0.0), 1.0)
        return self.final_sparsity * (1 - (1 - frac) ** 3)

    def due(self, step):
        return self.begin < step <= self.end and (step - self.begin) % self.every == 0

    @torch.no_grad()
    def update_masks(self, step):
        s = self.sparsity(step)
        for name, p in self.params.items():
            flat = p.abs().flatten()
            n_drop = int(s * flat.numel())
            threshold = torch.topk(flat, n_drop, largest=False).values.max()
            self.masks[name] = (p.abs() > threshold).to(p.dtype)

    @torch.no_grad()
    def apply(self):
        for name, p in self.params.items():
            p.mul_(self.masks[name])

    def density(self):
        kept = sum(m.sum() for m in self.masks.values())
        return kept / sum(m.numel() for m in self.masks.values())


class SyntheticHAR:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.freqs = torch.linspace(1.0, 5.0, CLASSES)
        self.mix = torch.randn(CLASSES, CHANNELS, generator=self.gen)
        self.t = torch.linspace(0, 1, WINDOW)

    def batch(self, n):
        y = torch.randint(0, CLASSES, (n,), generator=self.gen)
        phase = torch.rand(n, 1, generator=self.gen) * 2 * math.pi
        base = torch.sin(2 * math.pi * self.freqs[y][:, None] * self.t + phase)
        x = base[:, None, :] * self.mix[y][:, :, None]
        return x + 0.3 * torch.randn(x.shape, generator=self.gen), y


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    data = SyntheticHAR(SEED)
    model = TemporalNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    pruner = MagnitudePruner(model)
    running = torch.zeros((), device=device)

    for step in range(1, STEPS + 1):
        x, y = data.batch(BATCH)
        x, y = x.to(device), y.to(device)

        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        scheduler.step()
        pruner.apply()
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()

        if pruner.due(step):
            pruner.update_masks(step)
            pruner.apply()
            torch_xla.sync()

        if step % 20 == 0:
            print(f"step {step:3d} loss {running.item():.3f} density {pruner.density().item():.3f}")


if __name__ == "__main__":
    main()
