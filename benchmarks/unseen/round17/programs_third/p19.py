"""Adapting a pump-fault regressor to a new plant with AdaLoRA.

The network trained on the old plant is frozen; adapters of rank 16 are put on
its two inner layers and cut down to an average rank of 4 between warm-up and
the final phase.  Quality on the new plant is watched with torchmetrics.
"""
import logging
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch_xla
from peft import AdaLoraConfig, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError, MetricCollection, R2Score
from transformers import get_linear_schedule_with_warmup

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
LOG = logging.getLogger(__name__)


@dataclass
class Job:
    sensors: int = 14
    hidden: int = 32
    batch: int = 16
    epochs: int = 4
    train_size: int = 192
    lr: float = 4e-3
    eval_every: int = 12
    adapter: dict = field(default_factory=lambda: dict(init_r=16, target_r=4, tinit=4, tfinal=8, deltaT=1,
                                                       lora_alpha=16, target_modules=["inner", "trunk"]))


class FaultNet(nn.Module):
    def __init__(self, sensors, hidden):
        super().__init__()
        self.entry = nn.Linear(sensors, hidden)
        self.inner = nn.Linear(hidden, hidden)
        self.trunk = nn.Linear(hidden, hidden)
        self.severity = nn.Linear(hidden, 1)

    def forward(self, x):
        x = torch.relu(self.entry(x))
        x = torch.relu(self.inner(x))
        return self.severity(torch.relu(self.trunk(x))).squeeze(-1)


def make_readings(job, n, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(job.sensors, generator=torch.Generator().manual_seed(99))
    x = torch.randn(n, job.sensors, generator=g)
    return TensorDataset(x, torch.tanh(x @ w / 3) + 0.05 * torch.randn(n, generator=g))


def build(job, total_steps):
    base = FaultNet(job.sensors, job.hidden)
    config = AdaLoraConfig(total_step=total_steps, **job.adapter)
    return get_peft_model(base, config)


@torch.no_grad()
def evaluate(model, loader, metrics, device):
    metrics.reset()
    model.eval()
    for x, y in loader:
        metrics.update(model(x.to(device)), y.to(device))
        torch_xla.sync()
    model.train()
    return " ".join(f"{name} {value.item():.4f}" for name, value in metrics.compute().items())


def main(job=Job()):
    torch.manual_seed(17)
    device = torch_xla.device()
    train = DataLoader(make_readings(job, job.train_size, 1), batch_size=job.batch, shuffle=True)
    test = DataLoader(make_readings(job, 64, 2), batch_size=job.batch)
    total_steps = job.epochs * len(train)

    model = build(job, total_steps).to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    LOG.info("%d trainable values", sum(p.numel() for p in trainable))
    optimizer = torch.optim.AdamW(trainable, lr=job.lr, weight_decay=0.01)
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, total_steps + 1)
    metrics = MetricCollection({"mae": MeanAbsoluteError(), "r2": R2Score()}).to(device)
    torch_xla.sync()

    model.train()
    step = 0
    for _ in range(job.epochs):
        for x, y in train:
            step += 1
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            scheduler.step()
            model.base_model.update_and_allocate(step)
            optimizer.zero_grad()
            torch_xla.sync()
            if step % job.eval_every == 0:
                LOG.info("step %d loss %.4f %s", step, loss.item(), evaluate(model, test, metrics, device))


if __name__ == "__main__":
    main()
