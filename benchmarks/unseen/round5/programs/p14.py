"""Audio/video/text/depth/pose fusion classifier, robust to missing sensors."""
import random
from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MODALITIES = OrderedDict(audio=40, video=64, text=32, depth=16, pose=24)


@dataclass
class FusionConfig:
    dim: int = 32
    heads: int = 4
    classes: int = 7
    batch: int = 16
    drop: float = 0.2
    epochs: int = 5
    steps_per_epoch: int = 24
    lr: float = 2e-3
    seed: int = 4


class Sensors:
    def __init__(self, cfg, seed):
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)
        basis = torch.Generator().manual_seed(99)
        self.proto = {m: torch.randn(cfg.classes, d, generator=basis)
                      for m, d in MODALITIES.items()}

    def batch(self):
        y = torch.randint(self.cfg.classes, (self.cfg.batch,), generator=self.g)
        x = {m: p[y] + torch.randn(self.cfg.batch, p.shape[1], generator=self.g)
             for m, p in self.proto.items()}
        return x, y


class ModalityGate:
    """Switches whole modalities off during training, rescales the others."""

    def __init__(self, drop, seed):
        self.drop, self.rng = drop, random.Random(seed)

    def sample(self):
        keep = {m: self.rng.random() >= self.drop for m in MODALITIES}
        if not any(keep.values()):
            keep["audio"] = True
        scale = len(keep) / sum(keep.values())
        return {m: scale if on else 0.0 for m, on in keep.items()}


class Fusion(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoders = nn.ModuleDict({
            m: nn.Sequential(nn.Linear(d, cfg.dim), nn.GELU(), nn.LayerNorm(cfg.dim))
            for m, d in MODALITIES.items()})
        self.query = nn.Parameter(0.02 * torch.randn(1, 1, cfg.dim))
        self.attend = nn.MultiheadAttention(cfg.dim, cfg.heads, batch_first=True)
        self.head = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, x, gates=None):
        tokens = []
        for m, encoder in self.encoders.items():
            token = encoder(x[m])
            if gates is not None:
                token = token * gates[m]
            tokens.append(token)
        tokens = torch.stack(tokens, dim=1)
        query = self.query.expand(tokens.shape[0], -1, -1)
        pooled, _ = self.attend(query, tokens, tokens, need_weights=False)
        return self.head(pooled.squeeze(1) + tokens.mean(1))


class Experiment:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        self.cfg, self.device = cfg, torch_xla.device()
        self.model = Fusion(cfg).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.gate = ModalityGate(cfg.drop, cfg.seed)
        self.train_set, self.test_set = Sensors(cfg, 1), Sensors(cfg, 2)

    def put(self, batch):
        x, y = batch
        return {m: v.to(self.device) for m, v in x.items()}, y.to(self.device)

    def train_step(self):
        x, y = self.put(self.train_set.batch())
        self.opt.zero_grad()
        loss = F.cross_entropy(self.model(x, self.gate.sample()), y)
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def test(self, batches=4):
        self.model.eval()
        hits = 0
        for _ in range(batches):
            x, y = self.put(self.test_set.batch())
            good = (self.model(x).argmax(-1) == y).sum()
            torch_xla.sync()
            hits += good.item()
        self.model.train()
        return hits / (batches * self.cfg.batch)

    def run(self):
        for epoch in range(self.cfg.epochs):
            losses = [self.train_step() for _ in range(self.cfg.steps_per_epoch)]
            mean = sum(l.item() for l in losses) / len(losses)
            print(f"epoch {epoch} loss {mean:.3f} accuracy {self.test():.3f}", flush=True)


if __name__ == "__main__":
    Experiment(FusionConfig()).run()
