"""Multi-task learning on retinal image features pooled from several clinics.

Each clinic annotates a different part of the protocol, so a batch carries labels
for some of the tasks only. Every task has its own head, loss and weight.
"""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = {
    # name: (kind, outputs, loss weight, share of clinics that annotate it)
    "dr_grade": ("ordinal", 5, 1.0, 0.9),
    "macular_edema": ("binary", 1, 0.5, 0.6),
    "cup_disc_ratio": ("regression", 1, 2.0, 0.5),
    "image_quality": ("ordinal", 3, 0.3, 0.7),
    "hypertension": ("binary", 1, 0.5, 0.4),
    "age": ("regression", 1, 0.2, 0.5),
}
FEATURES = 32


class Clinic:
    def __init__(self, rng: random.Random):
        self.tasks = [t for t, spec in TASKS.items() if rng.random() < spec[3]] or ["dr_grade"]
        self.shift = torch.randn(FEATURES) * 0.2


class ClinicStream:
    """One clinic per batch; labels come as a dict holding the annotated tasks."""

    def __init__(self, batches, batch_size, clinics=80, seed=0):
        self.rng = random.Random(seed)
        self.clinics = [Clinic(self.rng) for _ in range(clinics)]
        self.batches, self.batch_size = batches, batch_size
        self.truth = {t: torch.randn(FEATURES, spec[1]) for t, spec in TASKS.items()}

    def _label(self, task, x):
        kind = TASKS[task][0]
        score = x @ self.truth[task]
        if kind == "ordinal":
            return score.argmax(1)
        if kind == "binary":
            return (score.squeeze(1) > 0).float()
        return torch.tanh(0.3 * score.squeeze(1))

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            clinic = self.rng.choice(self.clinics)
            x = torch.randn(self.batch_size, FEATURES)
            labels = {t: self._label(t, x) for t in clinic.tasks}
            yield {"features": x + clinic.shift, "labels": labels}


def task_loss(kind, output, target):
    if kind == "ordinal":
        return F.cross_entropy(output, target)
    if kind == "binary":
        return F.binary_cross_entropy_with_logits(output.squeeze(1), target)
    return F.mse_loss(output.squeeze(1), target)


class MultiTaskNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(FEATURES, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(),
        )
        self.heads = nn.ModuleDict({t: nn.Linear(width, spec[1]) for t, spec in TASKS.items()})

    def forward(self, features, tasks):
        h = self.trunk(features)
        return {t: self.heads[t](h) for t in tasks}


def to_device(tree, device):
    if isinstance(tree, dict):
        return {k: to_device(v, device) for k, v in tree.items()}
    return tree.to(device)


class Meter:
    def __init__(self):
        self.values = defaultdict(list)

    def add(self, losses):
        for name, value in losses.items():
            self.values[name].append(value.detach())

    def report(self):
        text = "  ".join(f"{n} {sum(v.item() for v in vs) / len(vs):.3f}"
                         for n, vs in sorted(self.values.items()))
        self.values.clear()
        return text


def train(steps=36, batch_size=16, report_every=9):
    device = torch_xla.device()
    stream = ClinicStream(steps, batch_size, seed=6)
    model = MultiTaskNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
    meter = Meter()
    xm.mark_step()
    for step, batch in enumerate(stream, 1):
        batch = to_device(batch, device)
        labels = batch["labels"]
        outputs = model(batch["features"], labels.keys())
        losses = {t: task_loss(TASKS[t][0], outputs[t], labels[t]) for t in labels}
        total = sum(TASKS[t][2] * value for t, value in losses.items())
        opt.zero_grad()
        total.backward()
        opt.step()
        meter.add(losses)
        xm.mark_step()
        if step % report_every == 0:
            print(f"[{step}] {meter.report()}")


if __name__ == "__main__":
    torch.manual_seed(40)
    train()
