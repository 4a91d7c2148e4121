"""Keyword spotting / speaker-intent fine-tuning of a small HuBERT on raw waveforms."""
import argparse

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from transformers import HubertConfig, HubertForSequenceClassification


def build_model(num_labels):
    config = HubertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16,),
        conv_stride=(20,),
        conv_kernel=(25,),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=1,
        hidden_act="relu",
        conv_pos_batch_norm=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        mask_time_prob=0.0,
        classifier_proj_size=24,
        num_labels=num_labels,
        attn_implementation="eager",
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    model.hubert.feature_projection.requires_grad_(False)
    return model


class Clips(torch.utils.data.IterableDataset):
    def __init__(self, n, seconds=0.05, rate=16000, num_labels=6, seed=0):
        self.n, self.length, self.num_labels = n, int(seconds * rate), num_labels
        self.seed = seed

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        for _ in range(self.n):
            wav = rng.standard_normal(self.length).astype(np.float32)
            wav = (wav - wav.mean()) / np.sqrt(wav.var() + 1e-7)
            yield torch.from_numpy(wav), int(rng.integers(self.num_labels))


def train(args):
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = build_model(args.num_labels).to(device).train()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=args.lr)
    loader = torch.utils.data.DataLoader(
        Clips(args.batch_size * args.steps, num_labels=args.num_labels),
        batch_size=args.batch_size,
        drop_last=True,
    )
    xm.mark_step()
    for step, (wav, label) in enumerate(loader):
        wav, label = wav.to(device), label.to(device)
        optimizer.zero_grad()
        logits = model(wav).logits
        loss = F.cross_entropy(logits, label)
        loss.backward()
        optimizer.step()
        xm.mark_step()
        if step % args.log_every == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch_size", type=int, default=4)
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--num_labels", type=int, default=6)
    ap.add_argument("--log_every", type=int, default=4)
    ap.add_argument("--seed", type=int, default=11)
    train(ap.parse_args())
