"""Keyword spotting: fine-tuning a small HuBERT classifier on synthetic tones."""
import math

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset
from transformers import HubertConfig, HubertForSequenceClassification
from transformers import get_linear_schedule_with_warmup

SAMPLE_RATE = 4000
CLIP = 1200
WORDS = ["up", "down", "yes", "no"]


class Tones(Dataset):
    """Each 'word' is a chirp with its own start and end frequency."""

    sweeps = [(300, 900), (900, 300), (500, 520), (200, 1300)]

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        label = int(rng.integers(len(WORDS)))
        f0, f1 = self.sweeps[label]
        t = np.arange(CLIP) / SAMPLE_RATE
        dur = CLIP / SAMPLE_RATE
        phase = 2 * math.pi * (f0 * t + (f1 - f0) * t ** 2 / (2 * dur))
        wave = rng.uniform(0.4, 1.0) * np.sin(phase + rng.uniform(0, 6.28))
        shift = int(rng.integers(-150, 150))
        wave = np.roll(wave, shift) + rng.normal(0, 0.1, CLIP)
        wave = (wave - wave.mean()) / (wave.std() + 1e-5)
        return {"input_values": torch.tensor(wave, dtype=torch.float32),
                "labels": torch.tensor(label)}


def build_model():
    config = HubertConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16, 24),
        conv_stride=(10, 5),
        conv_kernel=(20, 7),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        conv_pos_batch_norm=True,
        classifier_proj_size=16,
        num_labels=len(WORDS),
        hidden_dropout=0.05,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        layerdrop=0.0,
        mask_time_length=4,
        label2id={w: i for i, w in enumerate(WORDS)},
        id2label=dict(enumerate(WORDS)),
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


def param_groups(model, weight_decay):
    decay, plain = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        (plain if p.ndim < 2 or "layer_norm" in name else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    seen = 0
    for batch in loader:
        logits = model(input_values=batch["input_values"]).logits
        right += (logits.argmax(-1) == batch["labels"]).sum()
        seen += len(batch["labels"])
    model.train()
    return right.item() / seen


def main(epochs=2, batch_size=8, lr=5e-2):
    torch.manual_seed(6)
    device = torch_xla.device()
    train = DataLoader(Tones(96, seed=0), batch_size=batch_size, shuffle=True,
                       drop_last=True, generator=torch.Generator().manual_seed(6))
    valid = DataLoader(Tones(24, seed=1), batch_size=batch_size)
    train = pl.MpDeviceLoader(train, device)
    valid = pl.MpDeviceLoader(valid, device)

    model = build_model().to(device)
    model.train()
    opt = torch.optim.SGD(param_groups(model, 1e-4), lr=lr, momentum=0.9)
    sched = get_linear_schedule_with_warmup(opt, 4, epochs * len(train))

    step = 0
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for batch in train:
            opt.zero_grad()
            out = model(**batch)
            out.loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            total += out.loss.detach()
            step += 1
        loss = total.item() / len(train)
        acc = evaluate(model, valid, device)
        print(f"epoch {epoch} step {step} loss {loss:.4f} valid acc {acc:.3f} "
              f"lr {sched.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
