"""Keyword spotting on short clips with a small HuBERT classifier, trained by the Hugging Face Trainer."""
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import HubertConfig, HubertForSequenceClassification, Trainer, TrainingArguments, set_seed
from transformers import TrainerCallback

SAMPLE_RATE = 2000
CLIP_SECONDS = 0.3
KEYWORDS = ["yes", "no", "stop", "go", "left", "right"]


class SyntheticKeywords(Dataset):
    """Every keyword is a short chirp with its own start frequency and slope, under noise."""

    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        n = int(SAMPLE_RATE * CLIP_SECONDS)
        t = np.arange(n) / SAMPLE_RATE
        self.items = []
        for _ in range(size):
            y = int(rng.integers(len(KEYWORDS)))
            f0 = 60.0 + 70.0 * y
            slope = (-1) ** y * (40.0 + 12.0 * y)
            wave = np.sin(2 * np.pi * (f0 * t + 0.5 * slope * t ** 2) + rng.uniform(0, 6.28))
            wave = wave * rng.uniform(0.6, 1.0) + 0.2 * rng.standard_normal(n)
            wave = (wave - wave.mean()) / (wave.std() + 1e-7)
            self.items.append((wave.astype(np.float32), y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        wave, y = self.items[i]
        return {"input_values": torch.from_numpy(wave), "labels": y}


def collate(rows):
    return {
        "input_values": torch.stack([r["input_values"] for r in rows]),
        "labels": torch.tensor([r["labels"] for r in rows], dtype=torch.long),
    }


def build_model():
    config = HubertConfig(
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(16, 16),
        conv_kernel=(10, 4),
        conv_stride=(8, 4),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        hidden_dropout=0.1,
        activation_dropout=0.05,
        attention_dropout=0.05,
        feat_proj_dropout=0.0,
        final_dropout=0.1,
        layerdrop=0.15,
        apply_spec_augment=False,
        classifier_proj_size=32,
        num_labels=len(KEYWORDS),
        id2label=dict(enumerate(KEYWORDS)),
        label2id={k: i for i, k in enumerate(KEYWORDS)},
    )
    model = HubertForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d}  loss {float(logs['loss']):.4f}")


def main():
    set_seed(17)
    train_set = SyntheticKeywords(160, seed=1)
    model = build_model()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=20,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=5,
            weight_decay=0.01,
            max_grad_norm=1.0,
            optim="adamw_torch",
            logging_steps=10,
            save_strategy="no",
            eval_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_drop_last=True,
            dataloader_pin_memory=False,
            seed=17,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=train_set,
            data_collator=collate,
            callbacks=[PrintLoss()],
        )
        result = trainer.train()
    print(f"done, mean loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
