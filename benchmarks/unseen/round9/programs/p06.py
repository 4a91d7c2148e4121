"""Implicit-feedback recommender (NeuMF) with truncated loss against noisy clicks."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class NeuMF(nn.Module):
    def __init__(self, users, items, dim=16):
        super().__init__()
        self.user_gmf = nn.Embedding(users, dim)
        self.item_gmf = nn.Embedding(items, dim)
        self.user_mlp = nn.Embedding(users, dim)
        self.item_mlp = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, 32),
            nn.ReLU(),
            nn.Linear(32, 16),
            nn.ReLU(),
        )
        self.predict = nn.Linear(dim + 16, 1)
        for emb in (self.user_gmf, self.item_gmf, self.user_mlp, self.item_mlp):
            nn.init.normal_(emb.weight, std=0.05)

    def forward(self, u, i):
        gmf = self.user_gmf(u) * self.item_gmf(i)
        mlp = self.mlp(torch.cat([self.user_mlp(u), self.item_mlp(i)], 1))
        return self.predict(torch.cat([gmf, mlp], 1)).squeeze(1)


class ClickLog:
    def __init__(self, users, items, batch, noise=0.15, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.u_taste = torch.randn(users, 4, generator=self.gen)
        self.i_taste = torch.randn(items, 4, generator=self.gen)
        self.batch, self.noise = batch, noise

    def draw(self):
        g = self.gen
        u = torch.randint(0, len(self.u_taste), (self.batch,), generator=g)
        i = torch.randint(0, len(self.i_taste), (self.batch,), generator=g)
        y = ((self.u_taste[u] * self.i_taste[i]).sum(1) > 0).float()
        flip = torch.rand(self.batch, generator=g) < self.noise
        return u, i, torch.where(flip, 1 - y, y)


class DropRate:
    """Linear ramp of the share of large-loss samples that are thrown away."""

    def __init__(self, max_rate, ramp_steps):
        self.max_rate = max_rate
        self.ramp_steps = ramp_steps

    def __call__(self, step):
        return min(self.max_rate * step / self.ramp_steps, self.max_rate)


def truncated_bce(logits, labels, drop_rate):
    loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    order = torch.argsort(loss.detach())
    num_remember = int((1 - drop_rate) * len(order))
    keep = order[:num_remember]
    return F.binary_cross_entropy_with_logits(logits[keep], labels[keep])


class Meter:
    def __init__(self, name):
        self.name = name
        self.values = []

    def update(self, value):
        self.values.append(value.detach())

    @property
    def avg(self):
        return torch.stack(self.values).mean().item()

    def __str__(self):
        return f"{self.name} {self.avg:.4f}"


class Trainer:
    def __init__(self, model, log, device, lr=0.05):
        self.model = model.to(device)
        self.log = log
        self.device = device
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.drop_rate = DropRate(max_rate=0.2, ramp_steps=10)
        self.loss_meter = Meter("loss")

    def step(self, number):
        u, i, y = (t.to(self.device) for t in self.log.draw())
        logits = self.model(u, i)
        loss = truncated_bce(logits, y, self.drop_rate(number))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        xm.mark_step()
        self.loss_meter.update(loss)

    def train(self, steps, log_every=5):
        for number in range(steps):
            self.step(number)
            if (number + 1) % log_every == 0:
                print(f"[{number + 1}/{steps}] {self.loss_meter} drop {self.drop_rate(number):.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(NeuMF(200, 300), ClickLog(200, 300, batch=128), torch_xla.device())
    trainer.train(30)
