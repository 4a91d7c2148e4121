"""Distil a big keyword spotter into a small one (log-mel patches in, 8 commands out)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

N_MEL, N_FRAMES, N_CMD = 10, 16, 8
TEMPERATURE, ALPHA, SMOOTH = 3.0, 0.6, 0.1


class Student(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.conv1 = nn.Conv1d(N_MEL, width, 3, padding=1)
        self.norm1 = nn.LayerNorm(width)
        self.gate = nn.Linear(width, width)
        self.conv2 = nn.Conv1d(width, width, 3, padding=1)
        self.att = nn.Linear(width, 1)
        self.fc = nn.Linear(width, N_CMD)

    def forward(self, mel):
        h = self.conv1(mel).transpose(1, 2)
        h = self.norm1(h)
        h = h * torch.sigmoid(self.gate(h))
        h = self.conv2(h.transpose(1, 2)).transpose(1, 2)
        w = F.softmax(self.att(h), dim=1)
        pooled = (w * h).sum(dim=1)
        return self.fc(torch.relu(pooled))


class Teacher(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(N_MEL * N_FRAMES, width), nn.Tanh(), nn.Linear(width, N_CMD))

    def forward(self, mel):
        return self.net(mel)


def kd_loss(student_logits, teacher_logits, labels):
    soft = F.kl_div(
        F.log_softmax(student_logits / TEMPERATURE, dim=-1),
        F.softmax(teacher_logits / TEMPERATURE, dim=-1),
        reduction="batchmean",
    ) * TEMPERATURE ** 2
    hard = F.cross_entropy(student_logits, labels, label_smoothing=SMOOTH)
    return ALPHA * soft + (1 - ALPHA) * hard


def batches(n, bs, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(N_CMD, N_MEL, N_FRAMES, generator=g)
    for _ in range(n):
        y = torch.randint(0, N_CMD, (bs,), generator=g)
        yield proto[y] + 0.5 * torch.randn(bs, N_MEL, N_FRAMES, generator=g), y


def train_step(student, teacher, opt, mel, labels):
    opt.zero_grad()
    with torch.no_grad():
        t_logits = teacher(mel)
    s_logits = student(mel)
    loss = kd_loss(s_logits, t_logits, labels)
    loss.backward()
    xm.optimizer_step(opt, barrier=False)
    correct = (s_logits.argmax(dim=-1) == labels).sum()
    agree = (s_logits.argmax(dim=-1) == t_logits.argmax(dim=-1)).sum()
    return loss, correct, agree


def main():
    torch.manual_seed(21)
    device = xm.xla_device()
    teacher = Teacher().to(device).eval()
    student = Student().to(device)
    opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.85)
    for i, (mel, y) in enumerate(batches(5, 12, seed=2)):
        loss, correct, agree = train_step(student, teacher, opt, mel.to(device), y.to(device))
        xm.mark_step()
        print(f"step {i}: loss {loss.item():.4f}, correct {int(correct)}, agree {int(agree)}")


if __name__ == "__main__":
    main()
