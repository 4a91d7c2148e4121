"""Click prediction with a two-tower + cross network; quality is followed with torchmetrics."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC


class Cross(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for layer in self.layers:
            x = x0 * layer(x) + x
        return x


class ClickModel(nn.Module):
    def __init__(self, n_users=200, n_items=100, n_ctx=5, dim=8):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Embedding(n_items, dim)
        self.ctx = nn.Linear(n_ctx, dim)
        self.cross = Cross(3 * dim, layers=2)
        self.deep = nn.Sequential(nn.Linear(3 * dim, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.out = nn.Linear(3 * dim + 16, 1)

    def forward(self, user, item, ctx):
        x = torch.cat([self.users(user), self.items(item), self.ctx(ctx)], dim=-1)
        return self.out(torch.cat([self.cross(x), self.deep(x)], dim=-1)).squeeze(-1)


class ClickLog:
    def __init__(self, seed, batch):
        self.g = torch.Generator().manual_seed(seed)
        self.batch = batch
        self.taste = torch.randn(200, 3, generator=self.g)
        self.style = torch.randn(100, 3, generator=self.g)

    def next(self):
        user = torch.randint(0, 200, (self.batch,), generator=self.g)
        item = torch.randint(0, 100, (self.batch,), generator=self.g)
        ctx = torch.randn(self.batch, 5, generator=self.g)
        score = (self.taste[user] * self.style[item]).sum(1) + ctx[:, 0]
        click = (torch.sigmoid(score) > torch.rand(self.batch, generator=self.g)).long()
        return user, item, ctx, click


class Run:
    log_every = 6

    def __init__(self, steps=30, batch=64):
        torch.manual_seed(20)
        self.device = xm.xla_device()
        self.steps = steps
        self.data = ClickLog(seed=4, batch=batch)
        self.model = ClickModel().to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=0.05)
        self.loss_fn = nn.BCEWithLogitsLoss()
        self.metrics = MetricCollection(
            {"auc": BinaryAUROC(validate_args=False), "acc": BinaryAccuracy(validate_args=False)},
            compute_groups=False).to(self.device)
        self.loss_meter = MeanMetric(nan_strategy="disable").to(self.device)

    def train_step(self):
        user, item, ctx, click = (t.to(self.device) for t in self.data.next())
        logits = self.model(user, item, ctx)
        loss = self.loss_fn(logits, click.float())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            self.metrics.update(torch.sigmoid(logits.detach()), click)
            self.loss_meter.update(loss.detach())
        torch_xla.sync()

    def log(self, step):
        values = {k: v.item() for k, v in self.metrics.compute().items()}
        print(f"step {step:3d} loss {self.loss_meter.compute().item():.4f} "
              + " ".join(f"{k} {v:.4f}" for k, v in values.items()))

    def __call__(self):
        for step in range(1, self.steps + 1):
            self.train_step()
            if step % self.log_every == 0:
                self.log(step)


if __name__ == "__main__":
    Run()()
