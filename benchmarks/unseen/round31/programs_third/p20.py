"""Forecast synthetic meter readings with PatchTST under accelerate: accumulation, clipping, an evaluation each epoch."""
import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import PatchTSTConfig, PatchTSTForPrediction, get_cosine_schedule_with_warmup

CONTEXT = 48
HORIZON = 12
CHANNELS = 3
EPOCHS = 3


class Meters(Dataset):
    """Windows over a few series with a daily and a weekly cycle, a trend and noise."""

    def __init__(self, first, last, stride, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(last)
        series = []
        for c in range(CHANNELS):
            daily = np.sin(2 * np.pi * (t + 3 * c) / 24) * (1 + 0.2 * c)
            weekly = 0.5 * np.cos(2 * np.pi * t / 168)
            series.append(daily + weekly + 0.001 * t + rng.normal(0, 0.1, last))
        self.values = torch.tensor(np.stack(series, axis=1), dtype=torch.float32)
        self.starts = list(range(first, last - CONTEXT - HORIZON, stride))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        window = self.values[s:s + CONTEXT + HORIZON]
        return {"past_values": window[:CONTEXT], "future_values": window[CONTEXT:]}


def build_model():
    config = PatchTSTConfig(
        num_input_channels=CHANNELS,
        context_length=CONTEXT,
        prediction_length=HORIZON,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=32,
        dropout=0.1,
        head_dropout=0.1,
        scaling="std",
        loss="mse",
        attn_implementation="eager",
    )
    return PatchTSTForPrediction(config)


def grouped(model, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "norm" in name else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    losses, sizes = [], []
    for batch in loader:
        loss = model(**batch).loss
        n = batch["past_values"].shape[0]
        losses.append(accelerator.gather_for_metrics(loss.repeat(n)).cpu())
        sizes.append(n)
    model.train()
    return torch.cat(losses).mean().item()


def main():
    set_seed(31)
    accelerator = Accelerator(gradient_accumulation_steps=3)
    train = DataLoader(Meters(0, 700, 4), batch_size=8, shuffle=True, drop_last=False)
    held_out = DataLoader(Meters(700, 1000, 6), batch_size=16)

    model = build_model()
    opt = torch.optim.AdamW(grouped(model, 0.01), lr=2e-3)
    sched = get_cosine_schedule_with_warmup(opt, 4, EPOCHS * len(train))
    model, opt, train, held_out, sched = accelerator.prepare(model, opt, train, held_out, sched)
    print(f"device {accelerator.device.type}, {len(train)} batches an epoch")

    model.train()
    for epoch in range(EPOCHS):
        running = torch.zeros((), device=accelerator.device)
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            running += loss.detach()
        mse = evaluate(accelerator, model, held_out)
        print(f"epoch {epoch} train {running.item() / len(train):.4f} held-out {mse:.4f} "
              f"lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
