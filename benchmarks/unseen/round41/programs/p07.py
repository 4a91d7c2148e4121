"""Co-teaching for cell-type labels from flow cytometry, where a third of the gates is wrong."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MARKERS = 14
TYPES = 6
BATCH = 64
EPOCHS = 15
STEPS_PER_EPOCH = 4
NOISE = 0.35
RAMP = 10
LOG_EVERY = 5


class Cytometry:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.centres = np.random.default_rng(0).normal(0, 1.6, (TYPES, MARKERS))

    def batch(self, noise):
        y = self.rng.integers(0, TYPES, BATCH)
        x = self.centres[y] + self.rng.normal(0, 1.0, (BATCH, MARKERS))
        flip = self.rng.random(BATCH) < noise
        y = np.where(flip, (y + 1) % TYPES, y)
        x = np.arcsinh(x)
        return torch.from_numpy(x).float(), torch.from_numpy(y)


class GateNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(MARKERS, hidden), nn.LayerNorm(hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, TYPES),
        )

    def forward(self, x):
        return self.net(x)


def forget_schedule():
    rate = np.full(EPOCHS, NOISE)
    rate[:RAMP] = np.linspace(0.0, NOISE, RAMP)
    return rate


def coteach_loss(logits1, logits2, target, forget_rate):
    loss1 = F.cross_entropy(logits1, target, reduction="none")
    loss2 = F.cross_entropy(logits2, target, reduction="none")
    order1 = torch.argsort(loss1.detach())
    order2 = torch.argsort(loss2.detach())
    keep = int((1.0 - forget_rate) * target.shape[0])
    best1, best2 = order1[:keep], order2[:keep]
    # every network learns from the samples its peer trusts
    return loss1[best2].mean(), loss2[best1].mean()


class CoTeacher:
    def __init__(self, device, lr=2e-3):
        self.device = device
        self.nets = [GateNet().to(device) for _ in range(2)]
        self.opts = [torch.optim.Adam(n.parameters(), lr=lr) for n in self.nets]
        self.rates = forget_schedule()
        self.losses = []
        self.step = 0

    def fit_batch(self, x, y, epoch):
        x, y = x.to(self.device), y.to(self.device)
        l1, l2 = coteach_loss(self.nets[0](x), self.nets[1](x), y, self.rates[epoch])
        for opt, loss in zip(self.opts, (l1, l2)):
            opt.zero_grad()
            loss.backward()
            opt.step()
        self.losses.append(0.5 * (l1 + l2).detach())
        torch_xla.sync()
        self.step += 1

    def log(self):
        mean = torch.stack(self.losses).mean()
        print(f"step {self.step:3d}  mean loss {mean.item():.4f}  "
              f"last {self.losses[-1].item():.4f}")

    @torch.no_grad()
    def accuracy(self, data, batches=2):
        hits = torch.zeros(2, device=self.device)
        for _ in range(batches):
            x, y = data.batch(noise=0.0)
            x, y = x.to(self.device), y.to(self.device)
            hits += torch.stack([(n(x).argmax(1) == y).sum() for n in self.nets])
            torch_xla.sync()
        return (hits / (batches * BATCH)).tolist()


def main():
    torch.manual_seed(51)
    device = torch_xla.device()
    xm.set_rng_state(51, device)
    train, clean = Cytometry(52), Cytometry(53)
    teacher = CoTeacher(device)
    torch_xla.sync()

    for epoch in range(EPOCHS):
        for _ in range(STEPS_PER_EPOCH):
            x, y = train.batch(NOISE)
            teacher.fit_batch(x, y, epoch)
            if teacher.step % LOG_EVERY == 0:
                teacher.log()
        if (epoch + 1) % 3 == 0:
            a, b = teacher.accuracy(clean)
            print(f"epoch {epoch + 1:2d}  clean acc {a:.3f} / {b:.3f}")


if __name__ == "__main__":
    main()
