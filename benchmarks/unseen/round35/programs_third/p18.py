"""Keyword spotting with a small wav2vec2 encoder and the Hugging Face Trainer."""
import os
import tempfile

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch_xla
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainerCallback,
    TrainingArguments,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
    set_seed,
)

SAMPLE_RATE = 4000
CLIP = 1600
KEYWORDS = ["yes", "no", "up", "down", "stop"]


class Keywords(Dataset):
    """Each keyword is a pair of chirps; clips are centred and cut to a fixed length."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        base = np.random.default_rng(0).uniform(200, 900, size=(len(KEYWORDS), 4))
        self.examples = []
        for _ in range(n):
            label = int(rng.integers(len(KEYWORDS)))
            length = int(rng.integers(1000, 2000))
            wave = self.render(base[label] * rng.uniform(0.95, 1.05), length, rng)
            self.examples.append({"input_values": self.fit(wave), "labels": label})

    @staticmethod
    def render(freqs, length, rng):
        half = length // 2
        parts = []
        for lo, hi in (freqs[:2], freqs[2:]):
            f = np.linspace(lo, hi, half)
            parts.append(np.sin(2 * np.pi * np.cumsum(f) / SAMPLE_RATE) * np.hanning(half))
        wave = np.concatenate(parts)
        return wave + rng.normal(0, 0.1, size=wave.shape)

    @staticmethod
    def fit(wave):
        if len(wave) >= CLIP:
            lo = (len(wave) - CLIP) // 2
            wave = wave[lo:lo + CLIP]
        else:
            lo = (CLIP - len(wave)) // 2
            wave = np.pad(wave, (lo, CLIP - len(wave) - lo))
        wave = (wave - wave.mean()) / (wave.std() + 1e-5)
        return wave.astype(np.float32)

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[i]


def collate(features):
    return {
        "input_values": torch.from_numpy(np.stack([f["input_values"] for f in features])),
        "labels": torch.tensor([f["labels"] for f in features]),
    }


def build_model():
    config = Wav2Vec2Config(
        vocab_size=8,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_kernel=(20, 8),
        conv_stride=(10, 8),
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        hidden_dropout=0.05,
        attention_dropout=0.05,
        feat_proj_dropout=0.0,
        apply_spec_augment=False,
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
def accuracy(model, dataset, batch_size, device):
    model.eval()
    hits = torch.zeros((), device=device)
    for lo in range(0, len(dataset), batch_size):
        batch = collate([dataset[i] for i in range(lo, lo + batch_size)])
        logits = model(batch["input_values"].to(device)).logits
        hits += (logits.argmax(-1) == batch["labels"].to(device)).sum()
        torch_xla.sync()
    return hits.item() / len(dataset)


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d}  loss {float(logs['loss']):.4f}  lr {logs['learning_rate']:.2e}")


def main():
    set_seed(23)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=30,
            per_device_train_batch_size=8,
            learning_rate=2e-3,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=4,
            weight_decay=0.01,
            max_grad_norm=0.0,
            optim="adamw_torch",
            logging_steps=6,
            eval_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_drop_last=True,
            dataloader_num_workers=0,
            seed=23,
        )
        trainer = Trainer(
            model=build_model(),
            args=args,
            train_dataset=Keywords(128, seed=1),
            data_collator=collate,
            callbacks=[PrintLoss()],
        )
        trainer.train()
        acc = accuracy(trainer.model, Keywords(32, seed=2), 8, torch_xla.device())
        print(f"held-out accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
