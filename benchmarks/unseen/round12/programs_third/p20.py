"""Fine-tunes a small random BERT on sentence pairs with the transformers Trainer."""
import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainerCallback,
                          TrainingArguments, set_seed)

CLS, SEP, PAD, VOCAB = 1, 2, 0, 120
WIDTHS = (16, 32, 48)


class Pairs(Dataset):
    """Two token lists; label 1 if the second is a shuffled part of the first."""

    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [self.make(rng) for _ in range(n)]

    def make(self, rng):
        a = [rng.randrange(3, VOCAB) for _ in range(rng.randint(4, 26))]
        k = max(2, len(a) // 2)
        label = rng.randint(0, 1)
        b = rng.sample(a, k) if label else [rng.randrange(3, VOCAB) for _ in range(k)]
        ids = [CLS] + a + [SEP] + b + [SEP]
        return {"input_ids": ids, "token_type_ids": [0] * (len(a) + 2) + [1] * (k + 1), "labels": label}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class StairCollator:
    """Pads a batch to the smallest of a few fixed widths."""

    def __init__(self, widths):
        self.widths = widths

    def __call__(self, rows):
        longest = max(len(r["input_ids"]) for r in rows)
        width = next(w for w in self.widths if w >= longest)
        fill = lambda key, v: torch.tensor([r[key] + [v] * (width - len(r[key])) for r in rows])
        ids = fill("input_ids", PAD)
        return {"input_ids": ids, "token_type_ids": fill("token_type_ids", 0),
                "attention_mask": (ids != PAD).long(),
                "labels": torch.tensor([r["labels"] for r in rows])}


class BucketTrainer(Trainer):
    """Draws whole batches from one width so that short pairs stay short."""

    def get_train_dataloader(self):
        data, size = self.train_dataset, self.args.train_batch_size
        pools = {w: [] for w in WIDTHS}
        for i, row in enumerate(data.rows):
            pools[next(w for w in WIDTHS if w >= len(row["input_ids"]))].append(i)
        rng = random.Random(self.args.seed)
        batches = []
        for pool in pools.values():
            rng.shuffle(pool)
            batches += [pool[k:k + size] for k in range(0, len(pool) - size + 1, size)]
        rng.shuffle(batches)
        loader = torch.utils.data.DataLoader(data, batch_sampler=batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)


class Echo(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        shown = {k: round(v, 4) for k, v in (logs or {}).items() if k in ("loss", "eval_loss", "eval_accuracy")}
        if shown:
            print(f"[{state.global_step:3d}] {shown}")


def accuracy(pred):
    return {"accuracy": float((np.argmax(pred.predictions, -1) == pred.label_ids).mean())}


def main():
    set_seed(20)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64, num_labels=2, attn_implementation="eager"))
    train, held = Pairs(120, 1), Pairs(24, 2)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, per_device_train_batch_size=4, per_device_eval_batch_size=8,
            num_train_epochs=1, learning_rate=1e-3, weight_decay=0.01, lr_scheduler_type="cosine",
            warmup_steps=3, logging_steps=8, save_strategy="no", report_to=[], optim="adamw_torch",
            disable_tqdm=True, remove_unused_columns=False, dataloader_drop_last=True, seed=20)
        trainer = BucketTrainer(model=model, args=args, train_dataset=train, eval_dataset=held,
                                data_collator=StairCollator(WIDTHS), compute_metrics=accuracy,
                                callbacks=[Echo()])
        trainer.train()
        trainer.data_collator = StairCollator(WIDTHS[-1:])
        print({k: round(v, 4) for k, v in trainer.evaluate().items() if k in ("eval_loss", "eval_accuracy")})


if __name__ == "__main__":
    main()
