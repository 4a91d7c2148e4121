"""Spoken command classification: a tiny wav2vec 2.0 encoder under the HF Trainer.

Waveforms are short synthetic chirps; the model is initialised at random.
"""
import os
import tempfile

import numpy as np
import torch
import torch_xla  # noqa: F401
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
CLIP_SECONDS = 0.25
LABELS = ["up", "down", "hold", "warble"]


class ChirpCommands(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        length = int(SAMPLE_RATE * CLIP_SECONDS)
        t = np.arange(length) / SAMPLE_RATE
        self.labels = rng.integers(0, len(LABELS), size=n)
        clips = []
        for label in self.labels:
            f0 = rng.uniform(250, 400)
            if label == 0:
                f = f0 + 1200 * t
            elif label == 1:
                f = f0 + 300 - 1200 * t
            elif label == 2:
                f = np.full_like(t, f0)
            else:
                f = f0 + 60 * np.sin(2 * np.pi * 18 * t)
            wave = np.sin(2 * np.pi * np.cumsum(f) / SAMPLE_RATE + rng.uniform(0, 6.28))
            wave = wave + 0.1 * rng.normal(size=length)
            clips.append((wave - wave.mean()) / (wave.std() + 1e-7))
        self.clips = torch.from_numpy(np.stack(clips).astype(np.float32))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_values": self.clips[i], "labels": int(self.labels[i])}


def build_model():
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.25,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        conv_dim=(16, 24),
        conv_stride=(8, 4),
        conv_kernel=(16, 8),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        apply_spec_augment=False,
        classifier_proj_size=32,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={name: i for i, name in enumerate(LABELS)},
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


class LossPrinter(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d}  loss {float(logs['loss']):.4f}")


def accuracy(pred):
    guess = pred.predictions.argmax(-1)
    return {"accuracy": float((guess == pred.label_ids).mean())}


def main():
    set_seed(42)
    out_dir = tempfile.mkdtemp(prefix="w2v2_")
    args = TrainingArguments(
        output_dir=os.path.join(out_dir, "run"),
        per_device_train_batch_size=8,
        per_device_eval_batch_size=16,
        max_steps=16,
        optim="adamw_torch",
        learning_rate=2e-3,
        warmup_steps=4,
        weight_decay=0.01,
        max_grad_norm=1.0,
        logging_steps=4,
        eval_strategy="steps",
        eval_steps=8,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=42,
    )
    trainer = Trainer(
        model=build_model(),
        args=args,
        train_dataset=ChirpCommands(160, seed=0),
        eval_dataset=ChirpCommands(32, seed=1),
        compute_metrics=accuracy,
        callbacks=[LossPrinter()],
    )
    trainer.train()
    best = max(h["eval_accuracy"] for h in trainer.state.log_history if "eval_accuracy" in h)
    print(f"best accuracy {best:.3f}")


if __name__ == "__main__":
    main()
