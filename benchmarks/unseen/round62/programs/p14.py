"""Distilling a large speaker encoder into a small one with Lightning.

The teacher is frozen; the student matches its utterance embeddings (cosine + relational
loss).  Runs on one XLA device through SingleDeviceXLAStrategy.
"""
import logging
import warnings

import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import SingleDeviceXLAStrategy
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric
from torchmetrics.regression import CosineSimilarity

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")

N_MELS, FRAMES, EMB = 20, 40, 24


class Utterances(Dataset):
    """Mel-like frames: a speaker-specific spectral tilt under a random envelope."""

    def __init__(self, n, speakers=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        tilt = torch.randn(speakers, N_MELS, 1, generator=g)
        spk = torch.randint(0, speakers, (n,), generator=g)
        env = torch.rand(n, 1, FRAMES, generator=g) + 0.5
        self.x = tilt[spk] * env + 0.3 * torch.randn(n, N_MELS, FRAMES, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


class StatsPool(nn.Module):
    def forward(self, x):
        mu = x.mean(-1)
        sd = (x.var(-1, unbiased=False) + 1e-5).sqrt()
        return torch.cat([mu, sd], 1)


def encoder(width):
    return nn.Sequential(
        nn.Conv1d(N_MELS, width, 5, padding=2), nn.ReLU(), nn.GroupNorm(4, width),
        nn.Conv1d(width, width, 3, padding=2, dilation=2), nn.ReLU(), nn.GroupNorm(4, width),
        StatsPool(), nn.Linear(2 * width, EMB),
    )


class HostXLA(CPUAccelerator):
    """Lets the XLA strategy drive PJRT's device without a TPU being attached."""

    def setup_device(self, device):
        assert device.type == "xla", device


class Distill(pl.LightningModule):
    def __init__(self, lr=3e-3, relational=0.5, report_every=2):
        super().__init__()
        self.save_hyperparameters()
        self.teacher = encoder(32).requires_grad_(False).eval()
        self.student = encoder(8)
        self.loss_avg = MeanMetric()
        self.alignment = CosineSimilarity(reduction="mean")
        self.history = []

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def training_step(self, batch, batch_idx):
        with torch.no_grad():
            t = F.normalize(self.teacher(batch), dim=1)
        s = F.normalize(self.student(batch), dim=1)
        direct = 1.0 - (s * t).sum(1).mean()
        relation = F.mse_loss(s @ s.t(), t @ t.t())
        loss = direct + self.hparams.relational * relation
        return {"loss": loss, "student": s.detach(), "teacher": t}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.loss_avg.update(outputs["loss"])
        self.alignment.update(outputs["student"], outputs["teacher"])
        if (self.global_step % self.hparams.report_every) == 0:
            self.history.append((self.global_step, self.loss_avg.compute(), self.alignment.compute()))
        xm.mark_step()

    def on_train_epoch_end(self):
        step, loss, align = self.history[-1]
        print(f"epoch {self.current_epoch} step {step} loss {loss.item():.4f} alignment {align.item():.4f}")
        self.loss_avg.reset()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.student.parameters(), lr=self.hparams.lr)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.97 ** s)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


def main():
    pl.seed_everything(7)
    data = Utterances(256, seed=7)
    loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True, num_workers=0)

    trainer = pl.Trainer(
        accelerator=HostXLA(),
        strategy=SingleDeviceXLAStrategy(device=0),
        devices=1,
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    model = Distill()
    trainer.fit(model, loader)

    curve = [(s, round(a.item(), 3)) for s, _, a in model.history]
    print("alignment curve:", curve[::6])


if __name__ == "__main__":
    main()
