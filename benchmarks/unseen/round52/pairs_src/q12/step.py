"""Mean-teacher training of a small sleep-stage classifier (EEG epochs):
a few labelled epochs, the rest by consistency with the averaged weights."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.func import functional_call

DECAY = 0.95


class StageNet(nn.Module):
    def __init__(self, channels=2, width=8, stages=5):
        super().__init__()
        self.stem = nn.Conv1d(channels, width, 7, stride=3, padding=3)
        self.norm1 = nn.GroupNorm(2, width)
        self.conv = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.head = nn.Linear(width, stages)

    def forward(self, x):
        x = F.silu(self.norm1(self.stem(x)))
        x = F.silu(self.conv(x))
        return self.head(x.mean(-1))


class Teacher:
    """Exponential moving average of the student's weights."""

    def __init__(self, student, decay):
        self.decay = decay
        self.names = [n for n, _ in student.named_parameters()]
        self.weights = {n: p.detach().clone()
                        for n, p in student.named_parameters()}

    def update(self, student):
        for n, p in student.named_parameters():
            self.weights[n] = torch.lerp(self.weights[n], p, 1.0 - self.decay)

    def __call__(self, student, x):
        return functional_call(student, self.weights, (x,))


def ramp(step, length=40):
    t = min(1.0, (step + 1) / length)
    return 3.0 * t * t


def train_step(student, teacher, opt, labelled, target, weak, strong, step):
    opt.zero_grad()
    loss_sup = F.cross_entropy(student(labelled), target, label_smoothing=0.05)
    p_student = torch.softmax(student(strong), -1)
    p_teacher = torch.softmax(teacher(student, weak), -1)
    loss_con = F.mse_loss(p_student, p_teacher)
    loss = loss_sup + ramp(step) * loss_con
    loss.backward()
    opt.step()
    teacher.update(student)
    return loss.detach(), loss_con.detach()


def pending(student, teacher, opt, extra):
    params = list(student.parameters())
    out = params + [p.grad for p in params]
    out += [opt.state[p]["momentum_buffer"] for p in params]
    out += [teacher.weights[n] for n in teacher.names]
    return out + list(extra)


def batch(seed, dev):
    g = torch.Generator().manual_seed(seed)
    labelled = torch.randn(4, 2, 60, generator=g)
    target = torch.randint(0, 5, (4,), generator=g)
    base = torch.randn(6, 2, 60, generator=g)
    weak = base + 0.05 * torch.randn(6, 2, 60, generator=g)
    strong = base.roll(5, -1) * 1.2
    return [t.to(dev) for t in (labelled, target, weak, strong)]


def main():
    torch.manual_seed(1)
    dev = torch_xla.device()
    student = StageNet().to(dev)
    teacher = Teacher(student, DECAY)
    opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9,
                          nesterov=True, weight_decay=1e-4)
    dumps = {3: sys.argv[1], 4: sys.argv[2]}
    for step in range(6):
        data = batch(step, dev)
        torch_xla.sync()
        losses = train_step(student, teacher, opt, *data, step)
        if step in dumps:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(student, teacher, opt, losses))
            open(dumps[step], "w").write(text)
        torch_xla.sync()
        print(step, [round(x.item(), 6) for x in losses])


if __name__ == "__main__":
    main()
