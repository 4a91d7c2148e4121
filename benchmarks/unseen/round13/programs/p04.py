"""Joint driving-scene model trained on several partially annotated sources."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "seed": 11,
    "steps": 32,
    "batch": 4,
    "size": 16,
    "width": 8,
    "lr": 1e-3,
    "log_every": 8,
    "heads": {"seg": 6, "depth": 1, "normal": 3, "edge": 1},
    "loss_scale": {"seg": 0.8, "depth": 0.5, "normal": 0.25, "edge": 0.3},
}


class Trunk(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width * 2, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width * 2, width * 2, 3, padding=1), nn.ReLU(),
        )
        self.up = nn.ConvTranspose2d(width * 2, width, 2, stride=2)

    def forward(self, x):
        return F.relu(self.up(self.down(x)))


class SceneNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.trunk = Trunk(cfg["width"])
        self.heads = nn.ModuleDict({
            name: nn.Sequential(nn.Conv2d(cfg["width"], cfg["width"], 3, padding=1), nn.ReLU(),
                                nn.Conv2d(cfg["width"], channels, 1))
            for name, channels in cfg["heads"].items()
        })

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


def task_losses(out, target):
    return {
        "seg": F.cross_entropy(out["seg"], target["seg"]),
        "depth": F.l1_loss(out["depth"], target["depth"]),
        "normal": (1 - F.cosine_similarity(out["normal"], target["normal"], dim=1)).mean(),
        "edge": F.binary_cross_entropy_with_logits(out["edge"], target["edge"]),
    }


class SceneStream:
    """Cycles over recordings; a recording carries some of the four annotations."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = random.Random(cfg["seed"])
        self.gen = torch.Generator().manual_seed(cfg["seed"])

    def __iter__(self):
        b, s = self.cfg["batch"], self.cfg["size"]
        for _ in range(self.cfg["steps"]):
            image = torch.randn(b, 3, s, s, generator=self.gen)
            target = {
                "seg": torch.randint(0, self.cfg["heads"]["seg"], (b, s, s), generator=self.gen),
                "depth": image.mean(1, keepdim=True).abs(),
                "normal": F.normalize(image + 0.1, dim=1),
                "edge": (image[:, :1] > 0.5).float(),
            }
            present = {name: float(self.rng.random() < 0.6) for name in self.cfg["heads"]}
            if not any(present.values()):
                present["seg"] = 1.0
            yield image, target, present


def train(cfg):
    torch.manual_seed(cfg["seed"])
    device = xm.xla_device()
    model = SceneNet(cfg).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg["lr"], betas=(0.9, 0.99))
    seen = {name: 0 for name in cfg["heads"]}
    for step, (image, target, present) in enumerate(SceneStream(cfg)):
        image = image.to(device)
        target = {k: v.to(device) for k, v in target.items()}
        losses = task_losses(model(image), target)
        loss = 0.0
        for name, value in losses.items():
            loss = loss + cfg["loss_scale"][name] * (value * present[name])
            seen[name] += int(present[name])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xm.mark_step()
        if step % cfg["log_every"] == 0:
            parts = " ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
            print(f"step {step} total {loss.item():.4f} | {parts}")
    print("annotated batches", seen)


if __name__ == "__main__":
    train(CONFIG)
