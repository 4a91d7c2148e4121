"""Anomaly detection on machine-vibration windows with an autoencoder."""
import torch
import torch.nn as nn
import torch_xla
from lightning.pytorch import LightningModule, seed_everything
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryStatScores

WINDOW = 32
STEPS = 16


def make_windows(n, anomaly_rate, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(WINDOW) / WINDOW
    phase = torch.rand(n, 1, generator=g)
    speed = 2 + 3 * torch.rand(n, 1, generator=g)
    x = torch.sin(2 * torch.pi * (speed * t + phase))
    bad = torch.rand(n, generator=g) < anomaly_rate
    knock = torch.zeros(n, WINDOW)
    knock[:, ::11] = 1.5
    x = x + bad[:, None] * knock + 0.1 * torch.randn(n, WINDOW, generator=g)
    return TensorDataset(x, bad.long())


class VibrationAE(LightningModule):
    def __init__(self, width=8, code=4, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            nn.Linear(WINDOW, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, code)
        )
        self.decoder = nn.Sequential(
            nn.Linear(code, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, WINDOW)
        )
        self.threshold = nn.Parameter(torch.tensor(0.5))
        self.train_loss = MeanMetric()
        self.monitor = MetricCollection(
            {"auroc": BinaryAUROC(), "hits": BinaryStatScores(validate_args=False)},
            compute_groups=False,
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, batch_idx):
        x, bad = batch
        err = (self(x) - x).pow(2).mean(-1)
        good = (1 - bad).float()
        recon = (err * good).sum() / good.sum().clamp(min=1)
        margin = torch.nn.functional.softplus(self.threshold - err.detach()) * bad
        loss = recon + 0.1 * margin.mean()
        score = torch.sigmoid((err - self.threshold).detach() * 4)
        self.train_loss.update(loss.detach())
        self.monitor.update(score, bad)
        return loss

    def report(self):
        stats = self.monitor.compute()
        return stats["auroc"], self.train_loss.compute()

    def configure_optimizers(self):
        decay = [p for n, p in self.named_parameters() if p.ndim > 1]
        other = [p for n, p in self.named_parameters() if p.ndim <= 1]
        return torch.optim.AdamW(
            [{"params": decay, "weight_decay": 1e-2}, {"params": other, "weight_decay": 0.0}],
            lr=self.hparams.lr,
        )


def endless(loader):
    while True:
        yield from loader


def main():
    seed_everything(5)
    device = torch_xla.device()
    loader = DataLoader(
        make_windows(128, 0.25, seed=5), batch_size=8, shuffle=True, drop_last=True
    )
    model = VibrationAE().to(device)
    optimizer = model.configure_optimizers()
    model.train()

    batches = endless(loader)
    for step in range(STEPS):
        batch = [b.to(device) for b in next(batches)]
        loss = model.training_step(batch, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 2 == 1:
            auroc, mean_loss = model.report()
            print(f"step {step + 1}: loss {mean_loss.item():.4f} auroc {auroc.item():.4f}")

    torch_xla.sync()


if __name__ == "__main__":
    main()
