"""Attention-transfer distillation: a wide CNN teaches a thin one."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = 10


def make_net(width):
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
        nn.Sequential(nn.Conv2d(width, width * 2, 3, 2, 1), nn.BatchNorm2d(width * 2), nn.ReLU()),
        nn.Sequential(nn.Conv2d(width * 2, width * 2, 3, 2, 1), nn.BatchNorm2d(width * 2), nn.ReLU()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width * 2, CLASSES),
    )


class FeatureTap:
    """Collects the outputs of the named children during forward."""

    def __init__(self, names):
        self.names = names
        self.outputs = []

    def attach(self, model):
        for name, child in model.named_children():
            if name in self.names:
                child.register_forward_hook(self._grab)
        return self

    def _grab(self, module, args, output):
        self.outputs.append(output)

    def pop(self):
        feats, self.outputs = self.outputs, []
        return feats


def attention_map(x):
    return F.normalize(x.pow(2).mean(1).flatten(1), dim=1)


def kd_loss(student_logits, teacher_logits, t=4.0):
    p = F.log_softmax(student_logits / t, dim=1)
    q = F.softmax(teacher_logits / t, dim=1)
    return F.kl_div(p, q, reduction="batchmean") * t * t


class Distiller:
    def __init__(self, teacher, student, device, lr=3e-3, beta=50.0, alpha=0.7):
        self.device = device
        self.teacher = teacher.to(device).eval()
        self.student = student.to(device)
        self.opt = torch.optim.Adam(self.student.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=4, gamma=0.5)
        self.t_tap = FeatureTap({"0", "1", "2"})
        self.s_tap = FeatureTap({"0", "1", "2"})
        self.beta, self.alpha = beta, alpha

    def step(self, x, y):
        with torch.no_grad():
            t_logits = self.teacher(x)
        s_logits = self.student(x)
        t_feats, s_feats = self.t_tap.pop(), self.s_tap.pop()
        at = [(attention_map(a) - attention_map(b)).pow(2).mean() for a, b in zip(s_feats, t_feats)]
        loss = (self.alpha * kd_loss(s_logits, t_logits)
                + (1 - self.alpha) * F.cross_entropy(s_logits, y)
                + self.beta * torch.stack(at).mean())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    def run_epoch(self, batches):
        self.student.train()
        self.t_tap.attach(self.teacher)
        self.s_tap.attach(self.student)
        losses = []
        for x, y in batches:
            losses.append(self.step(x.to(self.device), y.to(self.device)).detach())
        self.sched.step()
        return sum(l.item() for l in losses) / len(losses)

    @torch.no_grad()
    def accuracy(self, x, y):
        self.student.eval()
        pred = self.student(x.to(self.device)).argmax(1).cpu()
        self.s_tap.pop()
        return (pred == y).float().mean().item()


def synthetic(n, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    x = torch.randn(n, 3, 12, 12, generator=gen) + y.view(-1, 1, 1, 1) * 0.1
    return x, y


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    train_x, train_y = synthetic(64, gen)
    val_x, val_y = synthetic(32, gen)
    distiller = Distiller(make_net(12), make_net(4), device)
    for epoch in range(9):
        order = torch.randperm(64, generator=gen)
        batches = [(train_x[i], train_y[i]) for i in order.split(16)]
        loss = distiller.run_epoch(batches)
        line = f"epoch {epoch} loss {loss:.4f}"
        if epoch % 4 == 0:
            line += f" val acc {distiller.accuracy(val_x, val_y):.3f}"
        print(line)


if __name__ == "__main__":
    main()
