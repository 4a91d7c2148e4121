"""Named-entity tagging with a small BERT and the Hugging Face Trainer."""
import os
import random
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForTokenClassification,
    DataCollatorForTokenClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "B-ORG"]
FIRST = "anna bert carla dirk eva frank gina hugo".split()
LAST = "adler berg conti diaz eklund fischer".split()
PLACE = "oslo lima quito dakar turin".split()
FIRM = "acme globex initech umbrella".split()
FILLER = "the a then went saw and with from to near met sold bought house car work train again later".split()


def make_tokenizer():
    vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + FIRST + LAST + PLACE + FIRM + FILLER)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def random_sentence(rng):
    words, tags = [], []
    for _ in range(rng.randint(3, 22)):
        kind = rng.random()
        if kind < 0.15:
            words += [rng.choice(FIRST), rng.choice(LAST)]
            tags += [1, 2]
        elif kind < 0.25:
            words.append(rng.choice(PLACE))
            tags.append(3)
        elif kind < 0.32:
            words.append(rng.choice(FIRM))
            tags.append(4)
        else:
            words.append(rng.choice(FILLER))
            tags.append(0)
    return words, tags


class NerDataset(torch.utils.data.Dataset):
    def __init__(self, tokenizer, n, seed, max_length=48):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            words, tags = random_sentence(rng)
            enc = tokenizer(" ".join(words), truncation=True, max_length=max_length)
            self.items.append({"input_ids": enc["input_ids"], "attention_mask": enc["attention_mask"], "labels": tags[:max_length]})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class LossPrinter(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step}: loss {logs['loss']:.4f} lr {logs['learning_rate']:.2e}")


def token_accuracy(pred):
    guess = np.argmax(pred.predictions, -1)
    keep = pred.label_ids != -100
    return {"accuracy": float((guess == pred.label_ids)[keep].mean())}


def main():
    set_seed(13)
    tokenizer = make_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64, num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)), label2id={l: i for i, l in enumerate(LABELS)},
        attn_implementation="eager", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    model = BertForTokenClassification(config)
    collator = DataCollatorForTokenClassification(tokenizer)

    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=6,
            max_steps=12,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=2,
            logging_steps=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            optim="adamw_torch",
            dataloader_num_workers=0,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=NerDataset(tokenizer, 180, seed=0),
            data_collator=collator,
            compute_metrics=token_accuracy,
            callbacks=[LossPrinter()],
        )
        result = trainer.train()
        print("finished", result.global_step, "steps, mean loss", round(result.training_loss, 4))


if __name__ == "__main__":
    main()
