"""Pretraining of an event-level music model (note-on / note-off / shift tokens).

The global batch is ramped up as in Megatron's --rampup-batch-size: it starts at
`start` samples and grows by `increment` every time another slice of the ramp has
been consumed.  The micro-batch stays constant, so the ramp changes the number of
accumulation steps.
"""
import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 40          # 16 note-on, 16 note-off, 8 time shifts
BOS = 0


@dataclass
class Ramp:
    start: int = 8
    increment: int = 8
    target: int = 96
    samples: int = 640

    def global_batch(self, consumed):
        if consumed >= self.samples:
            return self.target
        stages = (self.target - self.start) // self.increment
        return self.start + self.increment * int(consumed * stages / self.samples)


@dataclass
class RunConfig:
    micro_batch: int = 8
    context: int = 16
    width: int = 32
    lr: float = 4e-3
    warmup: int = 4
    total_samples: int = 900
    log_every: int = 4
    seed: int = 13
    ramp: Ramp = field(default_factory=Ramp)


class CausalMixer(nn.Module):
    """Gated causal convolution, the cheap stand-in for attention we use on short contexts."""

    def __init__(self, width, kernel=4):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv1d(width, 2 * width, kernel)

    def forward(self, x):
        h = F.pad(x.transpose(1, 2), (self.kernel - 1, 0))
        value, gate = self.conv(h).chunk(2, dim=1)
        return x + (value * torch.sigmoid(gate)).transpose(1, 2)


class MusicModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, cfg.width)
        self.mixer = CausalMixer(cfg.width)
        self.out = nn.Linear(cfg.width, VOCAB)

    def forward(self, tokens):
        return self.out(self.mixer(self.embed(tokens)))


class EventStream:
    """Random walks over a scale, written as on/shift/off triplets."""

    def __init__(self, cfg):
        self.context = cfg.context
        self.gen = torch.Generator().manual_seed(cfg.seed)

    def micro_batch(self, n):
        notes = self.context // 3 + 1
        steps = torch.randint(-2, 3, (n, notes), generator=self.gen)
        pitch = (steps.cumsum(1) + 8).clamp(1, 15)
        shift = 32 + torch.randint(0, 8, (n, notes), generator=self.gen)
        events = torch.stack([pitch, shift, pitch + 16], dim=2).flatten(1)[:, : self.context]
        bos = torch.full((n, 1), BOS)
        return torch.cat([bos, events[:, :-1]], dim=1), events


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = MusicModel(cfg).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda i: min(1.0, (i + 1) / cfg.warmup)
        )
        self.stream = EventStream(cfg)
        self.consumed = 0
        self.updates = 0

    def update(self):
        batch = self.cfg.ramp.global_batch(self.consumed)
        micro_batches = math.ceil(batch / self.cfg.micro_batch)
        total = torch.zeros((), device=self.device)
        for _ in range(micro_batches):
            tokens, targets = self.stream.micro_batch(self.cfg.micro_batch)
            logits = self.model(tokens.to(self.device))
            loss = F.cross_entropy(logits.flatten(0, 1), targets.to(self.device).flatten())
            (loss / micro_batches).backward()
            total += loss.detach()
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        xm.mark_step()
        self.consumed += batch
        self.updates += 1
        return total / micro_batches

    def fit(self):
        while self.consumed < self.cfg.total_samples:
            loss = self.update()
            if self.updates % self.cfg.log_every == 0:
                lr = self.schedule.get_last_lr()[0]
                xm.master_print(f"update {self.updates:3d}  samples {self.consumed:5d}  "
                                f"lr {lr:.2e}  loss {loss.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(RunConfig.seed)
    Trainer(RunConfig()).fit()
