"""Fine-tune a small HuBERT encoder for spoken-command classification."""
import math

import numpy as np
import torch
import torch_xla
from torch.utils.data import DataLoader, Dataset
from transformers import HubertConfig, HubertForSequenceClassification, Wav2Vec2FeatureExtractor, set_seed

SAMPLE_RATE = 4000
COMMANDS = ["up", "down", "left", "right", "stop"]
BATCH = 4
EPOCHS = 2
CLIPS = 32


class CommandClips(Dataset):
    """Chirps whose sweep identifies the command; speakers talk at different speeds."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.items = [self._make(int(self.rng.integers(len(COMMANDS)))) for _ in range(n)]

    def _make(self, label):
        n = int(self.rng.integers(10, 20)) * 80
        t = np.arange(n) / SAMPLE_RATE
        f0 = 200 + 120 * label
        sweep = f0 * t + (60 * label - 100) * t**2
        wave = np.sin(2 * math.pi * sweep) * np.hanning(n)
        wave += 0.05 * self.rng.standard_normal(n)
        return wave.astype(np.float32), label

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collate:
    def __init__(self, extractor):
        self.extractor = extractor

    def __call__(self, rows):
        batch = self.extractor(
            [wave for wave, _ in rows],
            sampling_rate=SAMPLE_RATE,
            padding="longest",
            return_tensors="pt",
        )
        batch["labels"] = torch.tensor([label for _, label in rows])
        return batch


def build_model():
    config = HubertConfig(
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(8, 8, 8),
        conv_kernel=(10, 4, 4),
        conv_stride=(5, 4, 4),
        num_feat_extract_layers=3,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        feat_extract_norm="group",
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        apply_spec_augment=False,
        classifier_proj_size=16,
        num_labels=len(COMMANDS),
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


def main():
    set_seed(3)
    device = torch_xla.device()
    extractor = Wav2Vec2FeatureExtractor(sampling_rate=SAMPLE_RATE, do_normalize=True)
    loader = DataLoader(
        CommandClips(CLIPS, seed=3),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        collate_fn=Collate(extractor),
    )
    model = build_model().to(device)
    model.train()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=5e-3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 5e-3, total_steps=EPOCHS * len(loader), cycle_momentum=False
    )

    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        hits = torch.zeros((), device=device)
        for batch in loader:
            labels = batch["labels"].to(device)
            out = model(input_values=batch["input_values"].to(device), labels=labels)
            out.loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            total += out.loss.detach()
            hits += (out.logits.argmax(-1) == labels).sum()
            torch_xla.sync()
        n = len(loader)
        print(f"epoch {epoch}: loss {total.item() / n:.3f} acc {hits.item() / (n * BATCH):.3f}")


if __name__ == "__main__":
    main()
