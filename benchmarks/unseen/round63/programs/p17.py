"""Late-payment scoring with Lightning: embeddings for the categorical columns, an MLP,
and a running AUROC that is shown while the epoch is still going on."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAUROC

warnings.filterwarnings("ignore")

SEED = 2718
CARDINALITIES = (7, 12, 4)
NUMERIC = 6
BATCH = 32
STEPS = 24


class XlaHost(CPUAccelerator):
    def setup_device(self, device):
        torch_xla.device()


class StepFence(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        torch_xla.sync()


class Progress(Callback):
    def __init__(self, every):
        self.every = every

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if (batch_idx + 1) % self.every == 0:
            shown = float(pl_module.shown_auroc)
            print(f"batch {batch_idx + 1:3d}  loss {float(outputs['loss']):.4f}  auroc {shown:.3f}")


def invoices(n, seed):
    g = torch.Generator().manual_seed(seed)
    cats = torch.stack([torch.randint(0, c, (n,), generator=g) for c in CARDINALITIES], 1)
    nums = torch.randn(n, NUMERIC, generator=g)
    score = 0.9 * nums[:, 0] - 0.6 * nums[:, 3] * nums[:, 1]
    score = score + 0.4 * (cats[:, 0] == 2) - 0.7 * (cats[:, 2] == 1) - 0.8
    late = torch.rand(n, generator=g) < torch.sigmoid(score)
    return TensorDataset(cats, nums, late.long())


class LatePayment(L.LightningModule):
    def __init__(self, dim=4, hidden=32, lr=5e-3):
        super().__init__()
        self.lr = lr
        self.tables = nn.ModuleList(nn.Embedding(c, dim) for c in CARDINALITIES)
        self.body = nn.Sequential(
            nn.Linear(dim * len(CARDINALITIES) + NUMERIC, hidden),
            nn.GELU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, 1),
        )
        self.auroc = BinaryAUROC(validate_args=False)
        self.register_buffer("shown_auroc", torch.tensor(0.5), persistent=False)

    def forward(self, cats, nums):
        embedded = [table(cats[:, i]) for i, table in enumerate(self.tables)]
        return self.body(torch.cat(embedded + [nums], dim=-1)).squeeze(-1)

    def training_step(self, batch, batch_idx):
        cats, nums, late = batch
        logit = self(cats, nums)
        loss = F.binary_cross_entropy_with_logits(logit, late.float())
        self.auroc.update(torch.sigmoid(logit.detach()), late)
        self.shown_auroc = self.auroc.compute()
        return loss

    def on_train_epoch_end(self):
        self.auroc.reset()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)


def main():
    L.seed_everything(SEED)
    loader = DataLoader(
        invoices(BATCH * STEPS, SEED), batch_size=BATCH, shuffle=True, drop_last=True
    )
    trainer = L.Trainer(
        accelerator=XlaHost(),
        devices=1,
        strategy=SingleDeviceStrategy(device=torch_xla.device()),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[StepFence(), Progress(every=8)],
    )
    trainer.fit(LatePayment(), loader)


if __name__ == "__main__":
    main()
