"""Short-term forecast of apiary sensors (hive weight, brood temperature, humidity) with PatchTSMixer and the Hugging Face Trainer.

Field loggers lose packets; the missing readings are zero in the arrays and marked as unobserved.
"""
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
from torch.utils.data import Dataset
from transformers import (
    PatchTSMixerConfig,
    PatchTSMixerForPrediction,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

CONTEXT = 32
HORIZON = 8
CHANNELS = ("weight", "temperature", "humidity")
COLONIES = 10
SEED = 5


def apiary(n_hours, seed):
    """Daily foraging cycle on a nectar flow, swarms, brood temperature regulated around 35 degrees."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_hours)
    day = 2 * np.pi * t / 24
    values = np.empty((COLONIES, n_hours, len(CHANNELS)), np.float32)
    for c in range(COLONIES):
        flow = 0.02 * rng.random() * np.clip(np.sin(4 * np.pi * t / n_hours + rng.random() * 6), 0, None)
        swarm = np.zeros(n_hours)
        swarm[rng.integers(n_hours // 4, n_hours)] = -2.0
        values[c, :, 0] = np.cumsum(flow + swarm) + 0.4 * np.sin(day + rng.normal(0, 0.2))
        values[c, :, 1] = 0.5 * np.sin(day - 1.0) + 0.1 * rng.standard_normal(n_hours)
        values[c, :, 2] = -0.6 * np.sin(day - 0.5) + 0.2 * rng.standard_normal(n_hours)
    lost = rng.random(values.shape) < 0.06
    for _ in range(n_hours // 6):
        c, start = rng.integers(0, COLONIES), rng.integers(0, n_hours - 12)
        lost[c, start:start + rng.integers(3, 12)] = True
    return np.where(lost, 0.0, values).astype(np.float32), ~lost


class ApiaryWindows(Dataset):
    def __init__(self, values, observed, n_windows, seed):
        self.values, self.observed = torch.from_numpy(values), torch.from_numpy(observed)
        rng = np.random.default_rng(seed)
        last = values.shape[1] - CONTEXT - HORIZON
        self.index = np.stack([rng.integers(0, COLONIES, n_windows), rng.integers(0, last, n_windows)], 1)

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        colony, start = self.index[i]
        mid, end = start + CONTEXT, start + CONTEXT + HORIZON
        return {
            "past_values": self.values[colony, start:mid],
            "past_observed": self.observed[colony, start:mid],
            "future_values": self.values[colony, mid:end],
            "future_observed": self.observed[colony, mid:end],
        }


def build_model():
    config = PatchTSMixerConfig(
        context_length=CONTEXT,
        prediction_length=HORIZON,
        num_input_channels=len(CHANNELS),
        patch_length=8,
        patch_stride=4,
        d_model=12,
        expansion_factor=2,
        num_layers=1,
        mode="common_channel",
        scaling="std",
        dropout=0.0,
        head_dropout=0.0,
    )
    return PatchTSMixerForPrediction(config)


class StepBoundary(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        torch_xla.sync()


class ForecastTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        future, seen = inputs["future_values"], inputs["future_observed"]
        outputs = model(past_values=inputs["past_values"], observed_mask=inputs["past_observed"], return_loss=False)
        residual = (outputs.prediction_outputs - future)[seen]
        loss = F.smooth_l1_loss(residual, torch.zeros_like(residual), beta=1.0)
        return (loss, outputs) if return_outputs else loss


def main():
    set_seed(SEED)
    values, observed = apiary(24 * 40, SEED)
    train_set = ApiaryWindows(values, observed, n_windows=320, seed=SEED + 1)
    model = build_model()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=8,
            max_steps=16,
            optim="sgd",
            learning_rate=5e-2,
            lr_scheduler_type="cosine",
            warmup_steps=3,
            max_grad_norm=1.0,
            logging_steps=4,
            save_strategy="no",
            report_to=[],
            remove_unused_columns=False,
            dataloader_drop_last=True,
            disable_tqdm=True,
            seed=SEED,
        )
        trainer = ForecastTrainer(model=model, args=args, train_dataset=train_set, callbacks=[StepBoundary()])
        result = trainer.train()
    print(f"final training loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
