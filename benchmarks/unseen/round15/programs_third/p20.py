"""Route maintenance reports of wind turbines to the right crew.

A small BERT is trained from scratch on synthetic work orders with the Trainer:
gradient accumulation, label smoothing, evaluation every few updates.
"""
import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

CREWS = {
    "blade": "erosion crack leading edge lightning receptor tip lacquer delamination root bolt".split(),
    "drive": "gearbox oil bearing vibration shaft brake coupling particle filter temperature".split(),
    "power": "converter inverter breaker transformer fuse phase overvoltage grid cable insulation".split(),
    "yaw": "yaw motor ring grease encoder misalignment slewing pad anemometer vane".split(),
}
FILLER = "turbine reported found during the inspection and needs at tower unit again after storm".split()
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]


class WordTokenizer:
    def __init__(self, max_length=20):
        words = sorted(set(FILLER).union(*CREWS.values()))
        self.ids = {w: i for i, w in enumerate(SPECIAL + words)}
        self.max_length = max_length

    def __len__(self):
        return len(self.ids)

    def __call__(self, text):
        body = [self.ids.get(w, 3) for w in text.split()][: self.max_length - 2]
        ids = [1, *body, 2]
        gap = self.max_length - len(ids)
        return {
            "input_ids": ids + [0] * gap,
            "attention_mask": [1] * len(ids) + [0] * gap,
        }


class WorkOrders(Dataset):
    def __init__(self, n, tokenizer, seed):
        draw = random.Random(seed)
        names = list(CREWS)
        self.rows = []
        for _ in range(n):
            label = draw.randrange(len(names))
            words = draw.choices(FILLER, k=draw.randint(4, 9))
            words += draw.choices(CREWS[names[label]], k=draw.randint(2, 4))
            if draw.random() < 0.3:
                words += draw.choices(CREWS[draw.choice(names)], k=1)
            draw.shuffle(words)
            self.rows.append({**tokenizer(" ".join(words)), "labels": label})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {k: torch.tensor(v) for k, v in self.rows[i].items()}


def compute_metrics(p: EvalPrediction):
    guess = np.argmax(p.predictions, axis=-1)
    table = np.zeros((len(CREWS), len(CREWS)), int)
    np.add.at(table, (p.label_ids, guess), 1)
    precision = np.diag(table) / np.maximum(table.sum(0), 1)
    recall = np.diag(table) / np.maximum(table.sum(1), 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    return {"accuracy": float(np.diag(table).sum() / table.sum()), "macro_f1": float(f1.mean())}


class Journal(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        shown = {k: round(v, 4) for k, v in logs.items() if k in ("loss", "eval_loss", "eval_accuracy", "eval_macro_f1")}
        if shown:
            print(f"update {state.global_step:3d}", shown)


def build_trainer(folder):
    tokenizer = WordTokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=tokenizer.max_length, num_labels=len(CREWS),
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0,
    )
    args = TrainingArguments(
        output_dir=folder,
        max_steps=48,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        eval_accumulation_steps=1,
        gradient_accumulation_steps=2,
        dataloader_drop_last=True,
        learning_rate=3e-3,
        optim="adamw_torch",
        lr_scheduler_type="cosine",
        warmup_steps=6,
        label_smoothing_factor=0.05,
        eval_strategy="steps",
        eval_steps=12,
        logging_steps=12,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=20,
    )
    return Trainer(
        model=BertForSequenceClassification(config),
        args=args,
        train_dataset=WorkOrders(640, tokenizer, 1),
        eval_dataset=WorkOrders(128, tokenizer, 2),
        compute_metrics=compute_metrics,
        callbacks=[Journal()],
    )


def main():
    set_seed(20)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(folder)
        trainer.train()
        final = trainer.evaluate()
    print("device", trainer.args.device, "accuracy", round(final["eval_accuracy"], 3))


if __name__ == "__main__":
    main()
