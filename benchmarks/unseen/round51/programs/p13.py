"""Bearing fault diagnosis from vibration windows: focal loss plus a memory-bank contrast term."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FAULTS = ("healthy", "inner race", "outer race", "ball")


@dataclasses.dataclass
class Config:
    steps: int = 18
    batch_size: int = 24
    window: int = 128
    feat_dim: int = 16
    bank_size: int = 1024
    temperature: float = 0.2
    bank_weight: float = 0.3
    gamma_start: float = 0.5
    gamma_end: float = 2.5
    lr: float = 2e-3
    log_every: int = 6


class VibrationStream:
    """Windows of a rotating machine; fault classes differ in impulse rate and are imbalanced."""

    def __init__(self, cfg, seed=3):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(seed)
        self.prior = torch.tensor([0.7, 0.12, 0.1, 0.08])
        self.rate = torch.tensor([0.0, 5.4, 3.6, 2.3])

    def next(self):
        n, w = self.cfg.batch_size, self.cfg.window
        y = torch.multinomial(self.prior, n, replacement=True, generator=self.g)
        t = torch.linspace(0, 1, w)
        phase = torch.rand(n, 1, generator=self.g)
        shaft = torch.sin(2 * torch.pi * (6 * t + phase))
        impulses = torch.sin(2 * torch.pi * self.rate[y][:, None] * (t + phase)).clamp(min=0.9) - 0.9
        x = shaft + 6 * impulses + 0.2 * torch.randn(n, w, generator=self.g)
        return x[:, None], y


class Encoder(nn.Module):
    def __init__(self, dim, num_classes):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 8, 9, stride=4, padding=4), nn.ReLU(),
            nn.Conv1d(8, 32, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.proj = nn.Linear(32, dim)
        self.cls = nn.Linear(32, num_classes)

    def forward(self, x):
        h = self.conv(x).mean(-1)
        return self.cls(h), F.normalize(self.proj(h), dim=-1)


class MemoryBank(nn.Module):
    """FIFO of past embeddings with their labels."""

    def __init__(self, size, dim, num_classes):
        super().__init__()
        self.size = size
        self.ptr = 0
        self.register_buffer("feats", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("labels", torch.randint(num_classes, (size,)))

    @torch.no_grad()
    def enqueue(self, feats, labels):
        n = feats.size(0)
        if self.ptr + n > self.size:
            self.ptr = 0
        self.feats[self.ptr:self.ptr + n] = feats
        self.labels[self.ptr:self.ptr + n] = labels
        self.ptr += n

    def contrast(self, feats, labels, temperature):
        sim = feats @ self.feats.t() / temperature
        pos = (labels[:, None] == self.labels[None]).float()
        logp = sim - torch.logsumexp(sim, dim=1, keepdim=True)
        return -((logp * pos).sum(1) / pos.sum(1).clamp(min=1)).mean()


class FocalLoss(nn.Module):
    def __init__(self, class_weight, gamma=2.0):
        super().__init__()
        self.gamma = gamma
        self.register_buffer("class_weight", class_weight)

    def forward(self, logits, target):
        logp = F.log_softmax(logits, dim=-1).gather(1, target[:, None]).squeeze(1)
        modulator = (1 - logp.exp()).clamp(min=1e-6) ** self.gamma
        return -(self.class_weight[target] * modulator * logp).mean()


def main():
    cfg = Config()
    torch.manual_seed(21)
    xm.set_rng_state(21)
    device = torch_xla.device()

    stream = VibrationStream(cfg)
    net = Encoder(cfg.feat_dim, len(FAULTS)).to(device)
    bank = MemoryBank(cfg.bank_size, cfg.feat_dim, len(FAULTS)).to(device)
    weight = (1 / stream.prior).sqrt()
    criterion = FocalLoss(weight / weight.mean(), gamma=cfg.gamma_start).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=1e-2)

    for step in range(cfg.steps):
        x, y = stream.next()
        x, y = x.to(device), y.to(device)

        # focus on the hard, rare faults only once the easy ones are fitted
        frac = step / max(1, cfg.steps - 1)
        criterion.gamma = cfg.gamma_start + frac * (cfg.gamma_end - cfg.gamma_start)

        logits, feats = net(x)
        cls_loss = criterion(logits, y)
        bank_loss = bank.contrast(feats, y, cfg.temperature)
        loss = cls_loss + cfg.bank_weight * bank_loss

        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        bank.enqueue(feats.detach(), y)
        torch_xla.sync()

        if (step + 1) % cfg.log_every == 0:
            print(f"step {step + 1:3d} focal {cls_loss.item():.4f} bank {bank_loss.item():.4f}")


if __name__ == "__main__":
    main()
