"""Keyword spotting: fine-tune a (tiny, randomly initialised) wav2vec 2.0 encoder with a
classification head on synthetic one-second "words" made of tone sequences.
"""
import math

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader
from transformers import (
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForSequenceClassification,
    get_cosine_schedule_with_warmup,
    set_seed,
)

RATE = 2000
KEYWORDS = ("up", "down", "left", "right")
MELODY = {"up": (300, 500, 800), "down": (800, 500, 300), "left": (400, 900, 400), "right": (700, 350, 700)}


class Keywords(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.clips, self.labels = [], []
        for _ in range(n):
            label = int(rng.integers(len(KEYWORDS)))
            # utterances last between 0.6 and 1 second
            length = int(RATE * rng.uniform(0.6, 1.0))
            wave = []
            for f in MELODY[KEYWORDS[label]]:
                t = np.arange(length // 3) / RATE
                wave.append(np.sin(2 * math.pi * f * rng.uniform(0.95, 1.05) * t))
            wave = np.concatenate(wave)
            self.clips.append((wave + 0.05 * rng.normal(size=wave.shape)).astype(np.float32))
            self.labels.append(label)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        return self.clips[i], self.labels[i]


class Collator:
    """Pads to one second, whatever the clips are."""

    def __init__(self, extractor):
        self.extractor = extractor

    def __call__(self, samples):
        clips, labels = zip(*samples)
        batch = self.extractor(
            list(clips),
            sampling_rate=RATE,
            padding="max_length",
            max_length=RATE,
            truncation=True,
            return_tensors="pt",
        )
        return {"input_values": batch["input_values"], "labels": torch.tensor(labels)}


def build_model():
    config = Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_kernel=(10, 4),
        conv_stride=(10, 4),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        hidden_dropout=0.1,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        layerdrop=0.0,  # every layer runs in each step, keeps the graph fixed
        classifier_proj_size=32,
        num_labels=len(KEYWORDS),
        label2id={k: i for i, k in enumerate(KEYWORDS)},
        id2label=dict(enumerate(KEYWORDS)),
        attn_implementation="eager",
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    seen = 0
    for batch in loader:
        labels = batch.pop("labels")
        right += (model(**batch).logits.argmax(-1) == labels).sum()
        seen += labels.shape[0]
    torch_xla.sync()
    model.train()
    return right.item() / seen


def main():
    set_seed(18)
    device = torch_xla.device()
    extractor = Wav2Vec2FeatureExtractor(sampling_rate=RATE, do_normalize=True)
    collate = Collator(extractor)
    train = DataLoader(
        Keywords(64, 1), batch_size=8, shuffle=True, drop_last=True, collate_fn=collate
    )
    test = DataLoader(Keywords(16, 2), batch_size=8, collate_fn=collate)
    train, test = MpDeviceLoader(train, device), MpDeviceLoader(test, device)

    model = build_model().to(device).train()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.02, momentum=0.9)
    epochs = 2
    scheduler = get_cosine_schedule_with_warmup(optimizer, 4, epochs * len(train))

    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for batch in train:
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            xm.optimizer_step(optimizer)
            scheduler.step()
            optimizer.zero_grad()
            total += loss.detach()
        accuracy = evaluate(model, test, device)
        print(f"epoch {epoch}: loss {total.item() / len(train):.4f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
