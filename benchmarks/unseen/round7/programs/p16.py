"""Distilling a wide CNN into a narrow one, on the hardest samples, with feature snapshots for analysis."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES, BATCH, SIZE = 6, 24, 12


def batches(n, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(CLASSES, 3, SIZE, SIZE, generator=g)
    for _ in range(n):
        y = torch.randint(0, CLASSES, (BATCH,), generator=g)
        yield proto[y] + 1.2 * torch.randn(BATCH, 3, SIZE, SIZE, generator=g), y


class ConvNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.stages = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(depth)])
        self.fc = nn.Linear(width, CLASSES)

    def forward(self, x):
        h = F.relu(self.stem(x))
        for conv in self.stages:
            h = h + F.relu(conv(h))
        return self.fc(h.mean((2, 3)))


class FeatureTap:
    """Remembers what some layers produced, so that they can be compared offline."""

    def __init__(self, model):
        self.features = {}
        self.wanted = set()
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(self.make_hook(name))
        self.names = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]

    def make_hook(self, name):
        def hook(module, args, output):
            if name in self.wanted:
                self.features[name] = output.detach().mean((2, 3))
        return hook

    def choose(self, rng, k):
        self.wanted = set(rng.sample(self.names, k))
        self.features.clear()

    def dump(self):
        return {name: f.cpu().std().item() for name, f in sorted(self.features.items())}


class HardMining:
    """Cross entropy plus distillation, averaged on the samples with the highest loss."""

    def __init__(self, temperature, start, end, steps):
        self.t, self.start, self.end, self.steps = temperature, start, end, steps

    def fraction(self, step):
        return self.start + (self.end - self.start) * min(1.0, step / self.steps)

    def __call__(self, student, teacher, y, step):
        ce = F.cross_entropy(student, y, reduction='none')
        kd = F.kl_div(F.log_softmax(student / self.t, -1), F.softmax(teacher / self.t, -1), reduction='none').sum(-1)
        per_sample = 0.5 * ce + 0.5 * self.t ** 2 * kd
        k = max(1, int(self.fraction(step) * per_sample.numel()))
        return per_sample.topk(k).values.mean()


def warm_teacher(teacher, device, steps):
    opt = torch.optim.SGD(teacher.parameters(), lr=0.05, momentum=0.9)
    for x, y in batches(steps, seed=1):
        opt.zero_grad()
        F.cross_entropy(teacher(x.to(device)), y.to(device)).backward()
        opt.step()
        xm.mark_step()
    return teacher.eval().requires_grad_(False)


def distill(steps=32):
    torch.manual_seed(3)
    rng = random.Random(3)
    device = torch_xla.device()
    teacher = warm_teacher(ConvNet(12, 2).to(device), device, 6)
    student = ConvNet(6, 4).to(device)
    tap = FeatureTap(student)
    criterion = HardMining(2.0, start=1.0, end=0.5, steps=20)
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    spread = []
    for step, (x, y) in enumerate(batches(steps, seed=2)):
        x, y = x.to(device), y.to(device)
        tap.choose(rng, 2)
        opt.zero_grad()
        with torch.no_grad():
            soft = teacher(x)
        loss = criterion(student(x), soft, y, step)
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 4 == 3:
            spread.append(tap.dump())
        if step % 8 == 7:
            print(f'step {step} loss {loss.item():.3f} spread {spread[-1]}')


if __name__ == '__main__':
    distill()
