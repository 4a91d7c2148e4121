"""Bird call detection on log-mel frames with a causal temporal conv net."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclasses.dataclass(frozen=True)
class Settings:
    mels: int = 20
    width: int = 16
    depth: int = 4
    kernel: int = 3
    frames: int = 48
    species: int = 6
    batch: int = 8
    steps: int = 16
    lr: float = 2e-3


class CausalBlock(nn.Module):
    """Gated residual block; pads on the left only."""

    def __init__(self, width, kernel, dilation):
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.filter = nn.Conv1d(width, width, kernel, dilation=dilation)
        self.gate = nn.Conv1d(width, width, kernel, dilation=dilation)
        self.skip = nn.Conv1d(width, width, 1)

    def forward(self, x):
        padded = F.pad(x, (self.left, 0))
        h = torch.tanh(self.filter(padded)) * torch.sigmoid(self.gate(padded))
        h = self.skip(h)
        return x + h, h


class CallDetector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Conv1d(cfg.mels, cfg.width, 1)
        self.blocks = nn.ModuleList(
            CausalBlock(cfg.width, cfg.kernel, dilation=i + 1) for i in range(cfg.depth))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(cfg.width, cfg.species, 1))

    def forward(self, mel):
        x = self.inp(mel)
        total = 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return self.out(total)


def frame_loss(logits, active, pos_weight):
    """Frame-wise multi-label loss; rare species weigh more."""
    return F.binary_cross_entropy_with_logits(
        logits, active, pos_weight=pos_weight.view(1, -1, 1))


class Recordings:
    def __init__(self, cfg, seed):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(seed)
        self.templates = torch.randn(cfg.species, cfg.mels, generator=self.gen)

    def batch(self):
        c = self.cfg
        start = torch.randint(0, c.frames - 12, (c.batch, c.species), generator=self.gen)
        present = (torch.rand(c.batch, c.species, generator=self.gen) < 0.3).float()
        t = torch.arange(c.frames)
        active = ((t >= start[..., None]) & (t < start[..., None] + 12)).float() * present[..., None]
        mel = torch.einsum("bst,sm->bmt", active, self.templates)
        mel = mel + 0.5 * torch.randn(mel.shape, generator=self.gen)
        return mel, active


def main():
    cfg = Settings()
    torch.manual_seed(0)
    device = torch_xla.device()
    recordings = Recordings(cfg, seed=1)
    model = CallDetector(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    pos_weight = torch.linspace(2.0, 5.0, cfg.species).to(device)

    for step in range(cfg.steps):
        mel, active = (t.to(device) for t in recordings.batch())
        opt.zero_grad()
        loss = frame_loss(model(mel), active, pos_weight)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"{step:3d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
