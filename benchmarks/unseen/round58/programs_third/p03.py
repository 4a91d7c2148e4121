"""Tiny Speech2Text trained from scratch on synthetic filterbanks.
Utterances are sequences of 'phones', each a fixed spectral template plus noise."""
import math
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch_xla
from torch.utils.data import DataLoader, Dataset
from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

PAD, BOS, EOS = 1, 0, 2
FIRST = 4
VOCAB = 28
MELS = 16
MAX_FRAMES = 64
MAX_TOKENS = 14


@dataclass
class TrainConfig:
    steps: int = 24
    batch_size: int = 4
    lr: float = 2e-3
    warmup: int = 5
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    log_every: int = 6
    seed: int = 5


class Utterances(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        bank = np.random.default_rng(99).normal(0, 1, (VOCAB, MELS))
        self.items = []
        for _ in range(n):
            phones = rng.integers(FIRST, VOCAB, int(rng.integers(5, MAX_TOKENS - 1)))
            frames = [np.repeat(bank[p][None], int(rng.integers(3, 6)), 0) for p in phones]
            feat = np.concatenate(frames)[:MAX_FRAMES]
            feat = feat + rng.normal(0, 0.3, feat.shape)
            self.items.append((feat.astype(np.float32), phones.astype(np.int64)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collator:
    """Pads to fixed sizes, applies CMVN and frequency masking on the host."""

    def __init__(self, max_mask=4):
        self.max_mask = max_mask

    def __call__(self, batch):
        feats = torch.zeros(len(batch), MAX_FRAMES, MELS)
        mask = torch.zeros(len(batch), MAX_FRAMES, dtype=torch.long)
        labels = torch.full((len(batch), MAX_TOKENS), -100)
        for i, (feat, phones) in enumerate(batch):
            x = torch.from_numpy(feat)
            x = (x - x.mean(0)) / (x.std(0) + 1e-5)
            width = random.randint(0, self.max_mask)
            low = random.randint(0, MELS - width)
            x[:, low:low + width] = 0.0
            feats[i, :len(x)] = x
            mask[i, :len(x)] = 1
            labels[i, :len(phones)] = torch.from_numpy(phones)
            labels[i, len(phones)] = EOS
        return {"input_features": feats, "attention_mask": mask, "labels": labels}


def build_model():
    config = Speech2TextConfig(
        vocab_size=VOCAB,
        d_model=32,
        encoder_layers=3,
        encoder_ffn_dim=64,
        encoder_attention_heads=4,
        decoder_layers=1,
        decoder_ffn_dim=64,
        decoder_attention_heads=4,
        encoder_layerdrop=0.2,
        decoder_layerdrop=0.1,
        dropout=0.1,
        activation_dropout=0.0,
        num_conv_layers=1,
        conv_channels=32,
        conv_kernel_sizes=(5,),
        input_feat_per_channel=MELS,
        max_source_positions=MAX_FRAMES,
        max_target_positions=32,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        use_cache=False,
    )
    return Speech2TextForConditionalGeneration(config)


def param_groups(model, wd):
    decay = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    rest = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    return [{"params": decay, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]


def schedule(cfg):
    def f(step):
        if step < cfg.warmup:
            return (step + 1) / (cfg.warmup + 1)
        t = (step - cfg.warmup) / max(1, cfg.steps - cfg.warmup)
        return 0.5 * (1 + math.cos(math.pi * t)) + 0.02
    return f


def forever(loader):
    while True:
        yield from loader


def main():
    cfg = TrainConfig()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()

    loader = DataLoader(Utterances(160, cfg.seed), cfg.batch_size, shuffle=True,
                        drop_last=True, collate_fn=Collator())
    model = build_model().to(device).train()
    opt = torch.optim.AdamW(param_groups(model, cfg.weight_decay), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule(cfg))

    losses = []
    for step, batch in enumerate(forever(loader), 1):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.grad_clip)
        opt.step()
        opt.zero_grad()
        sched.step()
        torch_xla.sync()
        losses.append(loss.detach())
        if step % cfg.log_every == 0:
            recent = [l.item() for l in losses[-cfg.log_every:]]
            print(f"step {step:3d} loss {np.mean(recent):.3f} lr {sched.get_last_lr()[0]:.2e}")
        if step == cfg.steps:
            break


if __name__ == "__main__":
    main()
