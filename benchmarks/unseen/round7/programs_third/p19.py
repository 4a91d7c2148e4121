"""Speech command classification with a tiny Wav2Vec2 from a config, trained through accelerate."""
import math

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, get_linear_schedule_with_warmup

LABELS, SAMPLES, BATCH, EPOCHS = 3, 640, 6, 4


class Tones(Dataset):
    """One second of a label-dependent chirp at a low sampling rate."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        t = np.arange(SAMPLES) / SAMPLES
        self.labels = rng.integers(0, LABELS, n)
        base = 20 * (1 + self.labels)[:, None] * (1 + 0.5 * t)
        wave = np.sin(2 * math.pi * base * t + rng.uniform(0, 6.28, (n, 1)))
        self.waves = (wave + rng.normal(0, 0.1, wave.shape)).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {'input_values': self.waves[i], 'labels': int(self.labels[i])}


def build_model():
    config = Wav2Vec2Config(
        vocab_size=8, hidden_size=24, num_hidden_layers=3, num_attention_heads=2, intermediate_size=48,
        conv_dim=(16, 16), conv_kernel=(10, 4), conv_stride=(8, 4), num_feat_extract_layers=2,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, feat_extract_norm='layer',
        do_stable_layer_norm=True, apply_spec_augment=False, num_labels=LABELS, classifier_proj_size=16)
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


class CommandTrainer:
    def __init__(self, lr=2e-3):
        self.accelerator = Accelerator(gradient_accumulation_steps=1)
        train = DataLoader(Tones(9 * BATCH, 1), batch_size=BATCH, shuffle=True, drop_last=True)
        valid = DataLoader(Tones(3 * BATCH, 2), batch_size=BATCH)
        model = build_model()
        params = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(params, lr=lr, weight_decay=0.01)
        schedule = get_linear_schedule_with_warmup(optimizer, 4, 200)
        self.model, self.optimizer, self.train, self.valid, self.schedule = self.accelerator.prepare(
            model, optimizer, train, valid, schedule)

    def train_epoch(self):
        self.model.train()
        for batch in self.train:
            with self.accelerator.accumulate(self.model):
                out = self.model(**batch)
                self.accelerator.backward(out.loss)
                self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
        return out.loss.item()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hits = total = 0
        for batch in self.valid:
            logits = self.model(**batch).logits
            pred, ref = self.accelerator.gather_for_metrics((logits.argmax(-1), batch['labels']))
            hits += (pred.cpu() == ref.cpu()).sum().item()
            total += len(ref)
        return hits / total


def main():
    set_seed(10)
    trainer = CommandTrainer()
    for epoch in range(EPOCHS):
        loss = trainer.train_epoch()
        trainer.accelerator.print(f'epoch {epoch} loss {loss:.3f} accuracy {trainer.evaluate():.2f}')


if __name__ == '__main__':
    main()
