"""Speech emotion classifier: wav2vec2 encoder from a small random configuration."""
import math

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, get_cosine_schedule_with_warmup

RATE = 4000
CLIP = 1600  # 0.4 s
EMOTIONS = ("calm", "happy", "angry", "sad")
BATCH = 8
STEPS = 18


class Utterances(Dataset):
    """Harmonic tones whose pitch, vibrato and loudness follow the emotion."""

    STYLE = {"calm": (140, 0.5, 0.4), "happy": (230, 4.0, 0.7), "angry": (190, 9.0, 1.0), "sad": (110, 1.5, 0.3)}

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng([self.seed, i])
        label = int(rng.integers(len(EMOTIONS)))
        f0, vib, loud = self.STYLE[EMOTIONS[label]]
        t = np.arange(CLIP) / RATE
        f = f0 * rng.uniform(0.85, 1.15) * (1 + 0.05 * np.sin(2 * math.pi * vib * t + rng.uniform(0, 6)))
        phase = 2 * math.pi * np.cumsum(f) / RATE
        wave = sum(np.sin(k * phase) / k for k in range(1, 5)) * loud * rng.uniform(0.8, 1.2)
        wave = wave + rng.normal(0, 0.05, CLIP)
        real = int(rng.integers(CLIP // 2, CLIP + 1))
        mask = (np.arange(CLIP) < real)
        wave = np.where(mask, (wave - wave[:real].mean()) / (wave[:real].std() + 1e-5), 0.0)
        return {"input_values": wave.astype(np.float32), "labels": label}


def build_model():
    cfg = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=32,
        num_hidden_layers=5,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16, 16),
        conv_kernel=(10, 4, 4),
        conv_stride=(5, 4, 2),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        classifier_proj_size=16,
        hidden_dropout=0.05,
        attention_dropout=0.05,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        apply_spec_augment=False,
        num_labels=len(EMOTIONS),
        id2label=dict(enumerate(EMOTIONS)),
        label2id={e: i for i, e in enumerate(EMOTIONS)},
        attn_implementation="eager",
    )
    model = Wav2Vec2ForSequenceClassification(cfg)
    model.freeze_feature_encoder()
    return model


def param_groups(model, wd=0.01):
    decay, plain = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (plain if p.ndim < 2 or "norm" in name else decay).append(p)
    return [{"params": decay, "weight_decay": wd}, {"params": plain, "weight_decay": 0.0}]


class Meter:
    def __init__(self, device):
        self.device = device
        self.reset()

    def reset(self):
        self.loss = torch.zeros((), device=self.device)
        self.right = torch.zeros((), device=self.device)
        self.n = 0

    def add(self, loss, logits, labels):
        self.loss = self.loss + loss.detach()
        self.right = self.right + (logits.argmax(-1) == labels).sum()
        self.n += 1


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    total = 0
    for batch in loader:
        logits = model(batch["input_values"]).logits
        right = right + (logits.argmax(-1) == batch["labels"]).sum()
        total += BATCH
    torch_xla.sync()
    model.train()
    return right.item() / total


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    train = DataLoader(Utterances(BATCH * STEPS, 13), batch_size=BATCH, shuffle=True, drop_last=True)
    val = DataLoader(Utterances(BATCH * 4, 99), batch_size=BATCH)
    train, val = pl.MpDeviceLoader(train, device), pl.MpDeviceLoader(val, device)

    model = build_model().to(device)
    model.train()
    opt = torch.optim.SGD(param_groups(model), lr=0.05)
    sched = get_cosine_schedule_with_warmup(opt, 6, STEPS)
    meter = Meter(device)

    for step, batch in enumerate(train, 1):
        out = model(batch["input_values"], labels=batch["labels"])
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt)
        sched.step()
        opt.zero_grad(set_to_none=False)
        meter.add(out.loss, out.logits, batch["labels"])
        if step % 9 == 0:
            torch_xla.sync()
            print(f"step {step} loss {meter.loss.item() / meter.n:.3f} "
                  f"train acc {meter.right.item() / (meter.n * BATCH):.3f}", end=" ")
            meter.reset()
            print(f"val acc {evaluate(model, val, device):.3f}")


if __name__ == "__main__":
    main()
