"""Bird-call classification from waveforms, trained with transformers' Trainer."""
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

logging.set_verbosity_error()

SPECIES = ("wren", "blackcap", "chiffchaff", "robin", "dunnock")
SAMPLE_RATE = 1000
CLIP = 640


class Calls(Dataset):
    """Chirps: every species has its own sweep, repetition rate and noise floor."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        t = np.arange(CLIP) / SAMPLE_RATE
        self.items = []
        for _ in range(n):
            k = int(rng.integers(len(SPECIES)))
            f0 = 60 + 45 * k + rng.normal(0, 4)
            sweep = (-1) ** k * 80.0
            gate = (np.sin(2 * np.pi * (4 + k) * t + rng.uniform(0, 6.28)) > 0).astype(np.float64)
            wav = gate * np.sin(2 * np.pi * (f0 * t + 0.5 * sweep * t ** 2)) + 0.2 * rng.normal(size=CLIP)
            wav = (wav - wav.mean()) / (wav.std() + 1e-6)
            self.items.append((wav.astype(np.float32), k))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        wav, label = self.items[i]
        return {"input_values": wav, "labels": label}


def collate(features):
    return {
        "input_values": torch.from_numpy(np.stack([f["input_values"] for f in features])),
        "labels": torch.tensor([f["labels"] for f in features], dtype=torch.long),
    }


class CallNet(nn.Module):
    """Strided convolution over the waveform, then gated residual blocks on the pooled features."""

    def __init__(self, width=24, blocks=6):
        super().__init__()
        self.front = nn.Conv1d(1, width, kernel_size=32, stride=16)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)) for _ in range(blocks)
        )
        self.head = nn.Linear(width, len(SPECIES))
        self.front.requires_grad_(False)

    def forward(self, input_values, labels=None):
        h = self.front(input_values[:, None]).relu().mean(-1)
        for block in self.blocks:
            h = h + block(h)
        logits = self.head(h)
        if labels is None:
            return {"logits": logits}
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Flush(TrainerCallback):
    """Cut the graph after the optimizer instead of at the next batch."""

    def on_step_end(self, args, state, control, **kwargs):
        torch_xla.sync()


class LayerSampling(TrainerCallback):
    """LISA (Pan et al., 2024): only a few sampled blocks learn at a time, the head always does."""

    def __init__(self, blocks, active=2, interval=2, seed=0):
        self.blocks = list(blocks)
        self.active = active
        self.interval = interval
        self.rng = random.Random(seed)

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step % self.interval == 0:
            chosen = set(self.rng.sample(range(len(self.blocks)), self.active))
            for i, block in enumerate(self.blocks):
                block.requires_grad_(i in chosen)


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d}  loss {logs['loss']:.4f}  lr {logs['learning_rate']:.2e}")


def main():
    set_seed(17)
    model = CallNet()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=36,
            per_device_train_batch_size=8,
            learning_rate=1e-1,
            lr_scheduler_type="cosine",
            warmup_steps=4,
            optim="sgd",
            max_grad_norm=0.0,
            logging_steps=9,
            save_strategy="no",
            eval_strategy="no",
            report_to="none",
            dataloader_drop_last=True,
            dataloader_num_workers=0,
            disable_tqdm=True,
            seed=17,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=Calls(160, seed=1),
            data_collator=collate,
            callbacks=[LayerSampling(model.blocks, seed=17), Flush(), PrintLoss()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
