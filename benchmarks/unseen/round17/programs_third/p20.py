"""Next-event model for machine logs with the Hugging Face Trainer.

A one-layer GPT-2 on event codes; sessions are cut and padded to one length.
Gradient accumulation, evaluation and checkpoints every few updates, and the
best checkpoint is loaded at the end.
"""
import random
import tempfile

import numpy as np
import torch
from datasets import Dataset
from transformers import (EarlyStoppingCallback, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments,
                          set_seed)

PAD, EVENTS, LENGTH = 0, 48, 20


def simulate_session(rnd):
    """A noisy walk over event codes; faults restart the sequence."""
    code, out = rnd.randrange(1, EVENTS), []
    for _ in range(rnd.randint(9, LENGTH)):
        out.append(code)
        if rnd.random() < 0.08:
            code = rnd.randrange(1, EVENTS)
        else:
            code = 1 + (code * 5 + 3) % (EVENTS - 1)
    return out


def to_features(example):
    ids = example["events"][:LENGTH]
    gap = LENGTH - len(ids)
    return {
        "input_ids": ids + [PAD] * gap,
        "attention_mask": [1] * len(ids) + [0] * gap,
        "labels": ids + [-100] * gap,
    }


def make_dataset(n, seed):
    rnd = random.Random(seed)
    raw = Dataset.from_dict({"events": [simulate_session(rnd) for _ in range(n)]})
    return raw.map(to_features, remove_columns=["events"])


def keep_argmax(logits, labels):
    return logits.argmax(-1)


def next_event_accuracy(pred):
    guess, labels = pred.predictions[:, :-1], pred.label_ids[:, 1:]
    known = labels != -100
    return {"next_event": float(np.mean(guess[known] == labels[known]))}


def main():
    set_seed(31)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=EVENTS, n_positions=LENGTH, n_embd=24, n_layer=1, n_head=2, n_inner=32,
        resid_pdrop=0.05, embd_pdrop=0.05, attn_pdrop=0.05, bos_token_id=PAD, eos_token_id=PAD))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=20,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=16,
            gradient_accumulation_steps=2,
            dataloader_drop_last=True,
            optim="adamw_torch",
            learning_rate=4e-3,
            lr_scheduler_type="cosine",
            warmup_steps=4,
            max_grad_norm=1.5,
            logging_steps=5,
            eval_strategy="steps",
            eval_steps=5,
            save_strategy="steps",
            save_steps=5,
            load_best_model_at_end=True,
            metric_for_best_model="next_event",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=make_dataset(192, seed=1),
            eval_dataset=make_dataset(64, seed=2),
            compute_metrics=next_event_accuracy,
            preprocess_logits_for_metrics=keep_argmax,
            callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
        )
        trainer.train()
        scores = trainer.evaluate()
        print({k: round(v, 4) for k, v in scores.items() if k in ("eval_loss", "eval_next_event")})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
