"""Bird-call tagging: LightningModule on a hand-written XLA loop, staged unfreezing, length buckets."""
import random
from collections import defaultdict

import lightning.pytorch as pl
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from lightning.pytorch.callbacks import BaseFinetuning

BUCKETS = (24, 40, 64)
N_MELS = 12
N_SPECIES = 5
BATCH = 8


def make_clip(rng):
    species = rng.randrange(N_SPECIES)
    frames = rng.randint(14, 64)
    gen = np.random.default_rng(rng.randrange(1 << 30))
    spec = gen.normal(0, 0.3, size=(N_MELS, frames)).astype(np.float32)
    for start in range(rng.randint(0, 4), frames, 4 + species):
        spec[(2 * species) % N_MELS:(2 * species) % N_MELS + 3, start:start + 2] += 1.5
    return torch.from_numpy(spec), species


class BucketedBatches:
    """Assigns every clip to the smallest bucket that holds it and pads to the bucket edge."""

    def __init__(self, clips, batch, seed):
        self.batch = batch
        self.rng = random.Random(seed)
        self.by_bucket = defaultdict(list)
        for spec, label in clips:
            edge = next(b for b in BUCKETS if spec.shape[1] <= b)
            self.by_bucket[edge].append((spec, label))

    def __iter__(self):
        plan = []
        for edge, rows in self.by_bucket.items():
            order = self.rng.sample(range(len(rows)), len(rows))
            for k in range(0, len(rows) - self.batch + 1, self.batch):
                plan.append((edge, [rows[i] for i in order[k:k + self.batch]]))
        self.rng.shuffle(plan)
        for edge, rows in plan:
            x = torch.zeros(len(rows), N_MELS, edge)
            mask = torch.zeros(len(rows), 1, edge)
            for i, (spec, _) in enumerate(rows):
                x[i, :, : spec.shape[1]] = spec
                mask[i, :, : spec.shape[1]] = 1.0
            yield x, mask, torch.tensor([label for _, label in rows])


class BirdTagger(pl.LightningModule):
    def __init__(self, width=12, lr=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.stem = nn.Sequential(nn.Conv1d(N_MELS, width, 3, padding=1), nn.ReLU())
        self.body = nn.Sequential(nn.Conv1d(width, width, 5, padding=2), nn.ReLU())
        self.head = nn.Linear(width, N_SPECIES)

    def forward(self, x, mask):
        h = self.body(self.stem(x)) * mask
        pooled = h.sum(-1) / mask.sum(-1).clamp(min=1.0)
        return self.head(pooled)

    def training_step(self, batch, batch_idx):
        x, mask, y = batch
        logits = self(x, mask)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        return {"loss": loss, "hits": (logits.detach().argmax(-1) == y).sum()}

    def configure_optimizers(self):
        trainable = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.SGD(trainable, lr=self.hparams.lr, momentum=0.9)


class StagedUnfreeze(BaseFinetuning):
    def __init__(self, schedule):
        super().__init__()
        self.schedule = schedule

    def freeze_before_training(self, pl_module):
        self.freeze([getattr(pl_module, name) for name in self.schedule])

    def finetune_function(self, pl_module, epoch, optimizer):
        for name, at in self.schedule.items():
            if epoch == at:
                self.unfreeze_and_add_param_group(
                    getattr(pl_module, name), optimizer, initial_denom_lr=2.0)


def main():
    pl.seed_everything(3)
    rng = random.Random(3)
    device = torch_xla.device()
    clips = [make_clip(rng) for _ in range(88)]
    batches = BucketedBatches(clips, BATCH, seed=9)

    model = BirdTagger().to(device)
    staged = StagedUnfreeze({"body": 1, "stem": 2})
    staged.freeze_before_training(model)
    optimizer = model.configure_optimizers()

    step = 0
    for epoch in range(7):
        staged.finetune_function(model, epoch, optimizer)
        model.train()
        losses, hits = [], []
        for batch_idx, batch in enumerate(batches):
            batch = tuple(t.to(device) for t in batch)
            out = model.training_step(batch, batch_idx)
            optimizer.zero_grad()
            out["loss"].backward()
            optimizer.step()
            losses.append(out["loss"].detach())
            hits.append(out["hits"])
            torch_xla.sync()
            step += 1
        mean_loss = torch.stack(losses).mean().item()
        acc = torch.stack(hits).sum().item() / (len(hits) * BATCH)
        print(f"epoch {epoch} step {step} loss {mean_loss:.4f} acc {acc:.3f} "
              f"groups {len(optimizer.param_groups)}")


if __name__ == "__main__":
    main()
