"""Address parsing (street / number / city / postcode) as token classification with the HF Trainer."""
import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForTokenClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

LABELS = ["O", "STREET", "NUMBER", "CITY", "POSTCODE"]
VOCAB = 128
MAX_LENGTH = 32
PAD = 0
# token id ranges of the word-piece vocabulary, per kind of field
RANGES = {"O": (1, 16), "STREET": (16, 60), "NUMBER": (60, 76), "CITY": (76, 112), "POSTCODE": (112, 128)}


class SyntheticAddresses(Dataset):
    """Lines of free text with one or several addresses in them."""

    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            ids, tags = [], []
            for _ in range(rng.choice([1, 1, 1, 2])):
                for field, words in (("O", (0, 3)), ("STREET", (1, 4)), ("NUMBER", (1, 2)),
                                     ("POSTCODE", (1, 2)), ("CITY", (1, 3))):
                    for _ in range(rng.randint(*words)):
                        lo, hi = RANGES[field]
                        # a few tokens are shared between the fields
                        ids.append(rng.randrange(lo, hi) if rng.random() > 0.1 else rng.randrange(1, VOCAB))
                        tags.append(LABELS.index(field))
            self.rows.append({"input_ids": ids, "labels": tags})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class PadToLength:
    def __init__(self, width):
        self.width = width

    def __call__(self, rows):
        width = self.width
        batch = {
            "input_ids": torch.full((len(rows), width), PAD),
            "attention_mask": torch.zeros(len(rows), width, dtype=torch.long),
            "labels": torch.full((len(rows), width), -100),
        }
        for i, r in enumerate(rows):
            n = len(r["input_ids"])
            batch["input_ids"][i, :n] = torch.tensor(r["input_ids"])
            batch["labels"][i, :n] = torch.tensor(r["labels"])
            batch["attention_mask"][i, :n] = 1
        return batch


class PrintLogs(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        shown = {k: round(v, 4) for k, v in logs.items() if k in ("loss", "eval_loss", "eval_token_f1")}
        if shown:
            print(f"step {state.global_step}: {shown}")


def token_f1(prediction):
    """Micro F1 over the tokens that belong to some field."""
    guess = prediction.predictions.argmax(-1)
    truth = prediction.label_ids
    known = truth != -100
    hit = ((guess == truth) & (truth > 0) & known).sum()
    said = ((guess > 0) & known).sum()
    there = ((truth > 0) & known).sum()
    return {"token_f1": float(2 * hit / max(1, said + there))}


def main():
    set_seed(18)
    model = BertForTokenClassification(BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=MAX_LENGTH, num_labels=len(LABELS),
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=PAD,
    ))
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=24,
            gradient_accumulation_steps=2,
            max_steps=40,
            learning_rate=5e-3,
            lr_scheduler_type="constant",
            optim="adamw_torch",
            eval_strategy="steps",
            eval_accumulation_steps=1,
            eval_steps=10,
            logging_steps=10,
            save_strategy="no",
            dataloader_drop_last=True,
            disable_tqdm=True,
            report_to=[],
            seed=18,
        )
        trainer = Trainer(
            model=model,
            args=args,
            data_collator=PadToLength(MAX_LENGTH),
            train_dataset=SyntheticAddresses(320, seed=1),
            eval_dataset=SyntheticAddresses(72, seed=2),
            compute_metrics=token_f1,
            callbacks=[PrintLogs()],
        )
        trainer.train()
    weights = np.sum([p.numel() for p in model.parameters()])
    print(f"done, {weights} parameters on {model.device}")


if __name__ == "__main__":
    main()
