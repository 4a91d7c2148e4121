import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def separable(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False), nn.BatchNorm2d(cin), nn.ReLU6(),
        nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU6(),
    )


class Student(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.body = nn.Sequential(separable(8, 16), separable(16, 24, 2))
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        f = self.body(F.relu(self.stem(x)))
        return self.head(f.mean((2, 3))), f


class Teacher(nn.Module):
    def __init__(self, classes, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 2, 1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.conv3 = nn.Conv2d(2 * width, 2 * width, 3, 1, 1)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        f = F.relu(self.conv2(F.relu(self.conv1(x))))
        f = f + F.relu(self.conv3(f))
        return self.head(f.mean((2, 3))), f


class DistillLoss(nn.Module):
    def __init__(self, temperature=4.0, alpha=0.7, feat_weight=0.1):
        super().__init__()
        self.t, self.alpha, self.feat_weight = temperature, alpha, feat_weight
        self.adapt = nn.Conv2d(24, 32, 1)

    def forward(self, student, teacher, labels):
        (s_logits, s_feat), (t_logits, t_feat) = student, teacher
        soft = F.kl_div(
            F.log_softmax(s_logits / self.t, dim=1),
            F.softmax(t_logits / self.t, dim=1),
            reduction="mean",
        ) * self.t ** 2
        hard = F.cross_entropy(s_logits, labels)
        feat = F.mse_loss(self.adapt(s_feat), t_feat)
        return self.alpha * soft + (1 - self.alpha) * hard + self.feat_weight * feat


class Distiller:
    def __init__(self, classes=10, lr=0.02, batch=8):
        self.device = torch_xla.device()
        self.batch, self.classes = batch, classes
        self.teacher = Teacher(classes).to(self.device).eval().requires_grad_(False)
        self.student = Student(classes).to(self.device)
        self.loss = DistillLoss().to(self.device)
        params = list(self.student.parameters()) + list(self.loss.parameters())
        self.opt = torch.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=5e-4)
        self.protos = torch.randn(classes, 3, 16, 16)

    def data(self):
        y = torch.randint(0, self.classes, (self.batch,))
        return (self.protos[y] + 0.4 * torch.randn(self.batch, 3, 16, 16)).to(self.device), y.to(self.device)

    def step(self):
        x, y = self.data()
        with torch.no_grad():
            target = self.teacher(x)
        loss = self.loss(self.student(x), target, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    def fit(self, steps):
        for i in range(steps):
            loss = self.step()
            if i % 5 == 0:
                print("step", i, "distill loss", round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(6)
    Distiller().fit(12)
