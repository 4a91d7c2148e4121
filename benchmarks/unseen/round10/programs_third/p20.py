"""Keyword spotting: wav2vec2 classifier with the transformers Trainer."""
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainerCallback,
    TrainingArguments,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
    set_seed,
)

KEYWORDS = ["yes", "no", "up", "down"]
SAMPLES = 960


class Keywords(Dataset):
    """Chirps standing in for one-word clips, cut to one length."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.label = rng.integers(0, len(KEYWORDS), n)
        t = np.linspace(0, 1, SAMPLES)
        start = 20 + 15 * (self.label % 2)
        slope = np.where(self.label < 2, 30, -10)
        phase = rng.uniform(0, 6.28, n)
        wave = np.sin(2 * np.pi * (start[:, None] * t + slope[:, None] * t ** 2 / 2) + phase[:, None])
        wave = wave + 0.2 * rng.normal(size=wave.shape)
        self.wave = ((wave - wave.mean(1, keepdims=True)) / wave.std(1, keepdims=True)).astype("float32")

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return {"input_values": self.wave[i], "labels": int(self.label[i])}


def collate(items):
    return {
        "input_values": torch.from_numpy(np.stack([x["input_values"] for x in items])),
        "labels": torch.tensor([x["labels"] for x in items]),
    }


@torch.no_grad()
def accuracy(model, data):
    model = model.to("cpu").eval()
    batch = collate([data[i] for i in range(len(data))])
    return (model(batch["input_values"]).logits.argmax(-1) == batch["labels"]).float().mean().item()


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']:.3f} lr {logs['learning_rate']:.1e}")


def build_model():
    config = Wav2Vec2Config(
        vocab_size=16,
        hidden_size=24,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(12, 12, 24),
        conv_stride=(5, 4, 2),
        conv_kernel=(10, 6, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        classifier_proj_size=24,
        apply_spec_augment=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
        num_labels=len(KEYWORDS),
        id2label=dict(enumerate(KEYWORDS)),
        label2id={k: i for i, k in enumerate(KEYWORDS)},
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


def main():
    set_seed(13)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=24,
            per_device_train_batch_size=8,
            learning_rate=5e-2,
            warmup_steps=4,
            logging_steps=6,
            optim="sgd",
            save_strategy="no",
            report_to=[],
            dataloader_drop_last=True,
            disable_tqdm=True,
            seed=13,
        )
        trainer = Trainer(model=build_model(), args=args, data_collator=collate, train_dataset=Keywords(96, 0),
                          callbacks=[PrintLoss()])
        trainer.train()
        print("accuracy", accuracy(trainer.model, Keywords(32, 1)))


if __name__ == "__main__":
    main()
