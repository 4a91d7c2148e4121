"""Mean-teacher training of a small ECG beat classifier (semi-supervised)."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LEADS, LENGTH, CLASSES = 2, 64, 5
LABELLED, UNLABELLED = 4, 8


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 5, stride=stride, padding=2, bias=False)
        self.gn1 = nn.GroupNorm(2, cout)
        self.conv2 = nn.Conv1d(cout, cout, 5, padding=2, bias=False)
        self.gn2 = nn.GroupNorm(2, cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        y = F.leaky_relu(self.gn1(self.conv1(x)), 0.1)
        y = self.gn2(self.conv2(y))
        return F.leaky_relu(y + self.skip(x), 0.1)


class BeatNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = Block(LEADS, 8, 2)
        self.b2 = Block(8, 12, 2)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.head(self.b2(self.b1(x)).mean(dim=-1))


@torch.no_grad()
def ema_update(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(decay).add_(s, alpha=1.0 - decay)


def train_step(student, teacher, opt, xl, y, xu, noise, decay=0.99, w_cons=2.0):
    opt.zero_grad(set_to_none=True)
    logits = student(torch.cat([xl, xu + noise], dim=0))
    sup = F.cross_entropy(logits[:LABELLED], y, label_smoothing=0.05)
    with torch.no_grad():
        target = F.softmax(teacher(xu), dim=-1)
    cons = F.mse_loss(F.softmax(logits[LABELLED:], dim=-1), target)
    loss = sup + w_cons * cons
    loss.backward()
    ema_update(teacher, student, decay)
    opt.step()
    return loss


def main(out):
    device = xm.xla_device()
    torch.manual_seed(3)
    student = BeatNet()
    teacher = copy.deepcopy(student)
    for p in teacher.parameters():
        p.requires_grad_(False)
    student, teacher = student.to(device), teacher.to(device)
    opt = torch.optim.SGD(student.parameters(), lr=0.03, momentum=0.9,
                          nesterov=True, weight_decay=5e-4)
    for step in range(4):
        xl = torch.randn(LABELLED, LEADS, LENGTH).to(device)
        xu = torch.randn(UNLABELLED, LEADS, LENGTH).to(device)
        noise = (0.15 * torch.randn(UNLABELLED, LEADS, LENGTH)).to(device)
        y = torch.randint(0, CLASSES, (LABELLED,)).to(device)
        loss = train_step(student, teacher, opt, xl, y, xu, noise)
        if step == 3:
            live = list(student.parameters()) + list(teacher.parameters())
            live += [opt.state[p]["momentum_buffer"] for p in student.parameters()]
            live.append(loss)
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
