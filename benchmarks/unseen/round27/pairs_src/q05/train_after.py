"""Knowledge distillation for keyword spotting."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm


@dataclass(frozen=True)
class Spec:
    mel: int = 10
    frames: int = 16
    commands: int = 8
    student_width: int = 12
    teacher_width: int = 20
    temperature: float = 3.0
    alpha: float = 0.6
    smoothing: float = 0.1
    lr: float = 0.05
    momentum: float = 0.85


class GatedUnit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.ln = nn.LayerNorm(width)

    def forward(self, x):
        x = self.ln(x)
        return torch.sigmoid(self.proj(x)) * x


class AttentivePool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        alpha = self.score(x).squeeze(-1).softmax(-1)
        return torch.bmm(alpha.unsqueeze(1), x).squeeze(1)


class KeywordNet(nn.Module):
    """Small student; registers the classifier first so that it is easy to swap."""

    def __init__(self, spec):
        super().__init__()
        w = spec.student_width
        self.classifier = nn.Linear(w, spec.commands)
        self.pool = AttentivePool(w)
        self.mix = nn.Conv1d(w, w, 3, padding=1)
        self.gated = GatedUnit(w)
        self.stem = nn.Conv1d(spec.mel, w, 3, padding=1)

    def forward(self, mel):
        x = self.gated(self.stem(mel).transpose(1, 2))
        x = self.mix(x.transpose(1, 2)).transpose(1, 2)
        return self.classifier(self.pool(x).relu())


def make_teacher(spec):
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(spec.mel * spec.frames, spec.teacher_width),
        nn.Tanh(),
        nn.Linear(spec.teacher_width, spec.commands),
    ).eval().requires_grad_(False)


class DistillationLoss(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        self.hard = nn.CrossEntropyLoss(label_smoothing=spec.smoothing)

    def forward(self, student, teacher, labels):
        s, t = self.spec, self.spec.temperature
        log_q = (student / t).log_softmax(-1)
        log_p = (teacher / t).log_softmax(-1)
        soft = t ** 2 * ((log_p.exp() * (log_p - log_q)).sum() / student.shape[0])
        return (1 - s.alpha) * self.hard(student, labels) + soft * s.alpha


class Distiller:
    def __init__(self, spec, device):
        self.teacher = make_teacher(spec).to(device)
        self.model = KeywordNet(spec).to(device)
        self.criterion = DistillationLoss(spec)
        self.optim = torch.optim.SGD(self.model.parameters(), lr=spec.lr, momentum=spec.momentum)

    def step(self, mel, labels):
        out = self.model(mel)
        ref = self.teacher(mel)
        guess = out.argmax(-1)
        stats = {"agree": guess.eq(ref.argmax(-1)).sum(), "correct": guess.eq(labels).sum()}
        stats["loss"] = self.criterion(out, ref, labels)
        self.optim.zero_grad()
        stats["loss"].backward()
        self.optim.step()
        return stats


def batches(spec, n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(spec.commands, spec.mel, spec.frames, generator=g)
    for _ in range(n):
        y = torch.randint(0, spec.commands, (bs,), generator=g)
        yield proto[y] + 0.5 * torch.randn(bs, spec.mel, spec.frames, generator=g), y


def main():
    torch.manual_seed(21)
    device, spec = xm.xla_device(), Spec()
    run = Distiller(spec, device)
    for i, (mel, y) in enumerate(batches(spec, 5, 12, seed=2)):
        stats = run.step(mel.to(device), y.to(device))
        xm.mark_step()
        print(f"step {i}: " + ", ".join(f"{k} {v.item():.4f}" for k, v in sorted(stats.items())))


if __name__ == "__main__":
    main()
