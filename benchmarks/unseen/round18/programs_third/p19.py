"""Repeat-order detection with a tiny BERT and the transformers Trainer."""
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

LENGTH = 16


class Orders(Dataset):
    """Does the marked item occur again later in the order?"""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = rng.integers(5, 40, (n, LENGTH))
        self.items[:, 0] = 2
        again = rng.random(n) < 0.5
        self.items[again, -3] = self.items[again, 1]
        self.labels = again.astype(np.int64)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {
            "input_ids": torch.tensor(self.items[i]),
            "labels": torch.tensor(self.labels[i]),
        }


class Lines(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        shown = {k: v for k, v in (logs or {}).items() if k in ("loss", "eval_loss", "eval_accuracy")}
        if shown:
            print(state.global_step, shown)


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    set_seed(6)
    config = BertConfig(
        vocab_size=40, hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=LENGTH, hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.0, num_labels=2,
    )
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=24, per_device_train_batch_size=8,
        per_device_eval_batch_size=16, gradient_accumulation_steps=2,
        optim="adamw_torch", learning_rate=1e-3, warmup_steps=4, lr_scheduler_type="cosine", logging_steps=4,
        eval_strategy="steps", eval_steps=8, eval_accumulation_steps=1,
        save_strategy="no", report_to=[], disable_tqdm=True, dataloader_drop_last=True,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config), args=args,
        train_dataset=Orders(160, 0), eval_dataset=Orders(48, 1),
        compute_metrics=accuracy, callbacks=[Lines()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
