"""Fine-tunes a tiny T5 with the Hugging Face Trainer to spell out digit expressions
("plus 3 4" -> words).  Word-level vocabulary, everything synthetic."""
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import (
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

PAD, EOS, SEP = 0, 1, 2
OFFSET = 4
ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
EXTRA = ["hundred", "and", "ty", "plus", "minus", "times"]
WORDS = {w: OFFSET + 10 + i for i, w in enumerate(ONES + EXTRA)}
VOCAB = OFFSET + 10 + len(WORDS)
MAX_SOURCE = 24
MAX_TARGET = 48


def spell(number):
    words = []
    if number >= 100:
        words += [ONES[number // 100], "hundred"]
        if number % 100:
            words.append("and")
    if number % 100 >= 10:
        words += [ONES[number % 100 // 10], "ty"]
    if number % 10 or not words:
        words.append(ONES[number % 10])
    return words


class Expressions(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.examples = []
        for _ in range(n):
            source, target = [], []
            terms = rng.randint(1, 5)
            for i in range(terms):
                number = rng.randint(0, 999)
                source += [OFFSET + int(c) for c in str(number)]
                target += spell(number)
                if i < terms - 1:
                    op = rng.choice(["plus", "minus", "times"])
                    source += [SEP, WORDS[op]]
                    target.append(op)
            self.examples.append({
                "input_ids": source[: MAX_SOURCE - 1] + [EOS],
                "labels": [WORDS[w] for w in target][: MAX_TARGET - 1] + [EOS],
            })

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        return self.examples[i]


@dataclass
class Seq2SeqCollator:
    pad_token_id: int = PAD
    label_pad_token_id: int = -100
    max_source_length: int = MAX_SOURCE

    def __call__(self, features):
        input_ids = torch.full((len(features), self.max_source_length), self.pad_token_id)
        for row, f in zip(input_ids, features):
            row[: len(f["input_ids"])] = torch.tensor(f["input_ids"])
        labels = pad_sequence(
            [torch.tensor(f["labels"]) for f in features],
            batch_first=True, padding_value=self.label_pad_token_id)
        return {
            "input_ids": input_ids,
            "attention_mask": (input_ids != self.pad_token_id).long(),
            "labels": labels,
        }


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step} loss {float(logs['loss']):.3f}")
        if logs and "eval_loss" in logs:
            print(f"step {state.global_step} eval {float(logs['eval_loss']):.3f}")


def build_model():
    config = T5Config(
        vocab_size=VOCAB, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_decoder_layers=2,
        num_heads=2, dropout_rate=0.05, pad_token_id=PAD, eos_token_id=EOS,
        decoder_start_token_id=PAD, use_cache=False)
    return T5ForConditionalGeneration(config)


def main():
    set_seed(13)
    train, held_out = Expressions(240, seed=1), Expressions(32, seed=2)
    model = build_model()
    args = TrainingArguments(
        output_dir="/tmp/t5_spelling",
        max_steps=30,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=16,
        learning_rate=3e-3,
        warmup_steps=6,
        lr_scheduler_type="cosine",
        optim="adamw_torch",
        logging_steps=10,
        eval_strategy="no",
        save_strategy="no",
        report_to=[],
        dataloader_drop_last=True,
        remove_unused_columns=False,
        disable_tqdm=True,
        seed=13,
    )
    trainer = Trainer(
        model=model, args=args, train_dataset=train, eval_dataset=held_out,
        data_collator=Seq2SeqCollator(), callbacks=[PrintLoss()])
    result = trainer.train()
    metrics = trainer.evaluate()
    lengths = [len(e["labels"]) for e in train.examples]
    print(f"trained {result.global_step} steps, eval {metrics['eval_loss']:.3f}, "
          f"target length mean {np.mean(lengths):.1f} max {max(lengths)}")


if __name__ == "__main__":
    main()
