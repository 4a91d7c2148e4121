"""Keyword spotting: a small randomly initialised wav2vec2 encoder with a classification head."""
import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, get_linear_schedule_with_warmup
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

LABELS = ["up", "down", "left", "right"]
SR = 1000
CLIP = 400


def synth_keywords(n, seed):
    rng = np.random.RandomState(seed)
    t = np.arange(CLIP) / SR
    y = rng.randint(0, len(LABELS), size=n)
    base = np.array([40.0, 80.0, 120.0, 160.0])[y][:, None]
    sweep = 1.0 + 0.3 * rng.rand(n, 1) * t[None]
    x = np.sin(2 * np.pi * base * sweep * t[None]) + 0.2 * rng.randn(n, CLIP)
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


def build_model(args):
    config = Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=args.layers,
        num_attention_heads=1,
        intermediate_size=32,
        conv_dim=(8, 8),
        conv_stride=(8, 5),
        conv_kernel=(16, 10),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=16,
        apply_spec_augment=False,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={l: i for i, l in enumerate(LABELS)},
        attn_implementation="eager",
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


def accuracy(model, loader):
    model.eval()
    hits, total = [], 0
    with torch.no_grad():
        for wav, y in loader:
            pred = model(input_values=wav).logits.argmax(-1)
            hits.append((pred == y).sum())
            total += y.shape[0]
    return sum(h.item() for h in hits) / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch_size", type=int, default=8)
    p.add_argument("--layers", type=int, default=3)
    p.add_argument("--learning_rate", type=float, default=2e-3)
    p.add_argument("--warmup_ratio", type=float, default=0.1)
    args = p.parse_args()

    np.random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    model = build_model(args).to(device)

    train = DataLoader(synth_keywords(96, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    dev = DataLoader(synth_keywords(32, 1), batch_size=args.batch_size, drop_last=True)
    total_steps = args.epochs * len(train)
    train, dev = pl.MpDeviceLoader(train, device), pl.MpDeviceLoader(dev, device)

    params = [q for q in model.parameters() if q.requires_grad]
    opt = torch.optim.AdamW(params, lr=args.learning_rate)
    sched = get_linear_schedule_with_warmup(opt, int(args.warmup_ratio * total_steps) + 1, total_steps + 1)

    for epoch in range(args.epochs):
        model.train()
        losses = []
        for wav, y in train:
            out = model(input_values=wav, labels=y)
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            xm.optimizer_step(opt)
            sched.step()
            opt.zero_grad()
            losses.append(out.loss.detach())
        mean_loss = np.mean([l.item() for l in losses])
        print(f"epoch {epoch}: loss {mean_loss:.4f} dev acc {accuracy(model, dev):.3f}")


if __name__ == "__main__":
    main()
