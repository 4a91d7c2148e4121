"""Sequence classification with transformers' Trainer: a tiny BERT, fixed-length inputs, evaluation at each epoch."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import random
import tempfile

import numpy as np
import torch
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments,
                          default_data_collator, set_seed)

VOCAB, LENGTH, LABELS = 64, 16, 3


class Parity(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = []
        for _ in range(n):
            k = r.randint(5, LENGTH)
            ids = [r.randrange(3, VOCAB) for _ in range(k)]
            self.rows.append((ids, sum(ids) % LABELS))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, label = self.rows[i]
        gap = LENGTH - len(ids)
        return {"input_ids": ids + [0] * gap, "attention_mask": [1] * len(ids) + [0] * gap, "labels": label}


def accuracy(pred):
    return {"accuracy": float((np.argmax(pred.predictions, -1) == pred.label_ids).mean())}


class Report(TrainerCallback):
    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        print(f"step {state.global_step} eval loss {metrics['eval_loss']:.4f} accuracy {metrics['eval_accuracy']:.3f}")


def main():
    set_seed(0)
    config = BertConfig(vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=48, max_position_embeddings=LENGTH, num_labels=LABELS,
                        attn_implementation="eager")
    model = BertForSequenceClassification(config)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), num_train_epochs=3, per_device_train_batch_size=8,
        per_device_eval_batch_size=8, dataloader_drop_last=True, eval_strategy="epoch", save_strategy="no",
        logging_steps=4, learning_rate=1e-3, lr_scheduler_type="constant_with_warmup", warmup_steps=3,
        max_grad_norm=1.0, optim="adamw_torch", report_to=[], disable_tqdm=True, dataloader_num_workers=0)
    trainer = Trainer(model=model, args=args, train_dataset=Parity(64, 0), eval_dataset=Parity(16, 1),
                      data_collator=default_data_collator, compute_metrics=accuracy, callbacks=[Report()])
    trainer.train()
    print("device", trainer.args.device)


if __name__ == "__main__":
    main()
