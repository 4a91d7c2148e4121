"""Fine-tune a tiny BERT classifier with the transformers Trainer on support tickets."""
import os
import random
import tempfile
from dataclasses import dataclass

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, DataCollatorWithPadding,
                          PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments,
                          set_seed)

TOPICS = {
    "billing": "invoice refund charge card payment price tax receipt".split(),
    "login": "password reset account locked email code token device".split(),
    "delivery": "parcel courier late address tracking lost warehouse box".split(),
}
FILLER = ("hello please i my the a is was and to of it with on you we still since again "
          "yesterday today help thanks").split()


@dataclass
class TicketConfig:
    examples: int = 480
    shortest: int = 5
    longest: int = 60
    max_length: int = 64
    batch: int = 8
    steps: int = 34
    seed: int = 13


def build_tokenizer():
    words = sorted({w for ws in TOPICS.values() for w in ws} | set(FILLER))
    vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]",
                                   cls_token="[CLS]", sep_token="[SEP]")


class Tickets(Dataset):
    def __init__(self, cfg, tokenizer, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(cfg.examples):
            label = rng.randrange(len(TOPICS))
            words = list(TOPICS.values())[label]
            n = rng.randint(cfg.shortest, cfg.longest)
            text = " ".join(rng.choice(words if rng.random() < 0.25 else FILLER)
                            for _ in range(n))
            row = tokenizer(text, truncation=True, max_length=cfg.max_length)
            self.rows.append({"input_ids": row["input_ids"],
                              "attention_mask": row["attention_mask"], "labels": label})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return dict(self.rows[i])


class Throughput(TrainerCallback):
    """Prints what the Trainer logs, one line per event."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d} loss {float(logs['loss']):.4f} "
                  f"lr {float(logs['learning_rate']):.2e}", flush=True)


def main(cfg=TicketConfig()):
    set_seed(cfg.seed)
    tokenizer = build_tokenizer()
    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=cfg.max_length,
        num_labels=len(TOPICS), attn_implementation="eager"))
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="tickets-"), max_steps=cfg.steps,
        per_device_train_batch_size=cfg.batch, learning_rate=2e-3, warmup_steps=5,
        weight_decay=0.01, logging_steps=8, save_strategy="no", report_to=[], optim="adamw_torch",
        disable_tqdm=True, dataloader_drop_last=True, seed=cfg.seed)
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model=model, args=args, train_dataset=Tickets(cfg, tokenizer, 1),
                      data_collator=collator, callbacks=[Throughput()])
    result = trainer.train()
    print(f"device {args.device}, mean loss {result.training_loss:.4f}")
    assert np.isfinite(result.training_loss)


if __name__ == "__main__":
    main()
