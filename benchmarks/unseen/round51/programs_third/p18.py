"""Named entity tagging of synthetic lab reports with transformers.Trainer and a small DistilBERT."""
import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch_xla
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForTokenClassification,
    DistilBertConfig,
    DistilBertForTokenClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

LABELS = ["O", "B-ANALYTE", "B-VALUE", "B-UNIT"]
ANALYTES = ["sodium", "potassium", "calcium", "glucose", "urea", "ferritin", "albumin"]
UNITS = ["mmol/l", "mg/dl", "g/l", "u/l"]
FILLER = ["the", "level", "of", "was", "measured", "at", "and", "remains", "stable", "slightly",
          "raised", "compared", "to", "last", "visit", "patient", "reports", "no", "symptoms", "."]
NUMBERS = [str(n) for n in range(1, 30)]
MAX_TOKENS = 64


def build_tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + ANALYTES + UNITS + FILLER + NUMBERS
    core = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=MAX_TOKENS,
        model_input_names=["input_ids", "attention_mask"],
    )


def write_report(rng):
    words, tags = [], []
    for _ in range(rng.integers(1, 6)):
        for w in rng.choice(FILLER, rng.integers(1, 5)):
            words.append(str(w))
            tags.append(0)
        words += [str(rng.choice(ANALYTES)), str(rng.choice(NUMBERS)), str(rng.choice(UNITS))]
        tags += [1, 2, 3]
        for w in rng.choice(FILLER, rng.integers(0, 4)):
            words.append(str(w))
            tags.append(0)
    return words, tags


class LabReports(Dataset):
    def __init__(self, tokenizer, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            words, tags = write_report(rng)
            enc = tokenizer(words, is_split_into_words=True, truncation=True)
            labels = [-100 if w is None else tags[w] for w in enc.word_ids()]
            self.rows.append({"input_ids": enc["input_ids"],
                              "attention_mask": enc["attention_mask"],
                              "labels": labels})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Progress(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        torch_xla.sync()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d} loss {float(logs['loss']):.4f}")


def build_model(tokenizer):
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=32,
        hidden_dim=64,
        n_layers=1,
        n_heads=4,
        max_position_embeddings=MAX_TOKENS,
        dropout=0.0,
        attention_dropout=0.0,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={name: i for i, name in enumerate(LABELS)},
    )
    config._attn_implementation = "eager"
    return DistilBertForTokenClassification(config)


def main():
    set_seed(31)
    tokenizer = build_tokenizer()
    args = TrainingArguments(
        output_dir="/tmp/lab_ner",
        per_device_train_batch_size=4,
        max_steps=16,
        learning_rate=5e-3,
        optim="adamw_torch",
        warmup_steps=4,
        max_grad_norm=0.0,
        logging_steps=8,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to=[],
        dataloader_drop_last=True,
        disable_tqdm=True,
        seed=31,
    )
    trainer = Trainer(
        model=build_model(tokenizer),
        args=args,
        train_dataset=LabReports(tokenizer, 160, seed=31),
        data_collator=DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
        callbacks=[Progress()],
    )
    result = trainer.train()
    print(f"finished {result.global_step} steps, mean loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
