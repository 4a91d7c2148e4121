"""Knowledge distillation for a long-tailed text classifier."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, CLASSES, SEQ = 80, 6, 20


class TextNet(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, dim, 3, padding=1) for _ in range(layers)])
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        for conv in self.convs:
            x = x + F.gelu(conv(x))
        return self.head(x.amax(-1))


class LongTail:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        freq = 0.5 ** np.arange(CLASSES)
        self.label = rng.choice(CLASSES, size=n, p=freq / freq.sum())
        self.ids = rng.integers(0, VOCAB, size=(n, SEQ))
        for i, c in enumerate(self.label):
            self.ids[i, rng.integers(0, SEQ, 3)] = c * 5
        self.rng = rng

    def counts(self):
        return np.maximum(np.bincount(self.label, minlength=CLASSES), 1)

    def draw(self, n):
        i = self.rng.integers(0, len(self.label), n)
        return torch.from_numpy(self.ids[i]), torch.from_numpy(self.label[i])


class Ramp:
    """Linear ramp between two values."""

    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps

    def __call__(self, step):
        r = min(step, self.steps) / self.steps
        return self.start + (self.end - self.start) * r


class Distiller:
    def __init__(self, device, counts, total):
        self.device = device
        self.teacher = TextNet(32, 3).to(device)
        self.student = TextNet(16, 1).to(device)
        self.prior = torch.from_numpy(counts / counts.sum()).float().to(device)
        self.temperature = Ramp(4.0, 2.0, total)
        self.kd_weight = Ramp(0.8, 0.3, total)
        self.rebalance = Ramp(0.2, 0.9, total)
        self.opt_t = torch.optim.Adam(self.teacher.parameters(), lr=2e-3)
        self.opt_s = torch.optim.Adam(self.student.parameters(), lr=2e-3)

    def class_weight(self, step):
        w = self.prior ** -self.rebalance(step)
        return w / w.mean()

    def kd_loss(self, s, t, step):
        tau = self.temperature(step)
        return F.kl_div(F.log_softmax(s / tau, -1), F.softmax(t / tau, -1), reduction="batchmean") * tau * tau

    def teacher_step(self, ids, label):
        loss = F.cross_entropy(self.teacher(ids), label)
        self.apply(self.opt_t, loss)
        return loss.detach()

    def student_step(self, ids, label, step):
        with torch.no_grad():
            t = self.teacher(ids)
        s = self.student(ids)
        hard = F.cross_entropy(s, label, weight=self.class_weight(step))
        w = self.kd_weight(step)
        loss = (1 - w) * hard + w * self.kd_loss(s, t, step)
        self.apply(self.opt_s, loss)
        return loss.detach()

    @staticmethod
    def apply(opt, loss):
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()

    @torch.no_grad()
    def accuracy(self, ids, label):
        hit = (self.student(ids).argmax(-1) == label).float().mean()
        torch_xla.sync()
        return hit.item()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    data, held_out = LongTail(600, 1), LongTail(64, 2)
    kd = Distiller(device, data.counts(), total=36)
    test = [t.to(device) for t in held_out.draw(64)]
    torch_xla.sync()
    for _ in range(12):
        kd.teacher_step(*[t.to(device) for t in data.draw(16)])
    for step in range(36):
        ids, label = data.draw(16)
        loss = kd.student_step(ids.to(device), label.to(device), step)
        if (step + 1) % 12 == 0:
            print(step + 1, f"loss {loss.item():.4f} accuracy {kd.accuracy(*test):.3f}")


if __name__ == "__main__":
    main()
