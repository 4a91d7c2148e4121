"""Grapheme-to-phoneme with a tiny BART trained from scratch by the Hugging Face Trainer on an XLA device."""
import tempfile
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from torch.utils.data import Dataset
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

PAD, BOS, EOS = 0, 1, 2
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SOURCE = {c: i + 3 for i, c in enumerate(LETTERS)}
DIGRAPHS = {"sh": "S", "ch": "C", "th": "T", "ng": "N", "ee": "I", "oo": "U", "ck": "k", "ph": "f", "qu": "Q"}
PHONES = sorted(set(LETTERS) | set(DIGRAPHS.values()))
TARGET = {p: i + 3 for i, p in enumerate(PHONES)}
VOCAB = 3 + max(len(LETTERS), len(PHONES))


def pronounce(word):
    out, i = [], 0
    while i < len(word):
        pair = word[i:i + 2]
        if pair in DIGRAPHS:
            out.append(DIGRAPHS[pair])
            i += 2
        elif word[i] == "e" and i == len(word) - 1:
            i += 1
        else:
            out.append({"c": "k", "x": "z"}.get(word[i], word[i]))
            i += 1
    return out


def invent_words(n, seed):
    rng = np.random.default_rng(seed)
    onset = list("bcdfghklmnprstvw") + ["sh", "ch", "th", "ph", "qu"]
    nucleus = list("aeiou") + ["ee", "oo"]
    coda = ["", "", "n", "t", "s", "ng", "ck", "me"]
    pick = lambda xs: xs[int(rng.integers(len(xs)))]
    return ["".join(pick(onset) + pick(nucleus) + pick(coda) for _ in range(rng.integers(1, 4))) for _ in range(n)]


class G2PDataset(Dataset):
    def __init__(self, words):
        self.pairs = [(w, pronounce(w)) for w in words]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        word, phones = self.pairs[i]
        return {"src": [SOURCE[c] for c in word] + [EOS], "tgt": [TARGET[p] for p in phones] + [EOS]}


@dataclass
class FixedCollator:
    src_len: int = 16
    tgt_len: int = 16

    @staticmethod
    def fill(rows, width, value):
        out = torch.full((len(rows), width), value, dtype=torch.long)
        for i, r in enumerate(rows):
            r = r[:width]
            out[i, :len(r)] = torch.tensor(r)
        return out

    def __call__(self, features):
        src = self.fill([f["src"] for f in features], self.src_len, PAD)
        labels = self.fill([f["tgt"] for f in features], self.tgt_len, -100)
        return {"input_ids": src, "attention_mask": (src != PAD).long(), "labels": labels}


@dataclass
class ModelOptions:
    d_model: int = 24
    layers: int = 1
    heads: int = 2
    ffn: int = 48
    dropout: float = 0.1


def build_model(opt):
    config = BartConfig(
        vocab_size=VOCAB, max_position_embeddings=32, d_model=opt.d_model,
        encoder_layers=opt.layers, decoder_layers=opt.layers,
        encoder_attention_heads=opt.heads, decoder_attention_heads=opt.heads,
        encoder_ffn_dim=opt.ffn, decoder_ffn_dim=opt.ffn,
        dropout=opt.dropout, attention_dropout=0.0, activation_dropout=0.0,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=EOS, forced_eos_token_id=EOS,
        use_cache=False,
    )
    return BartForConditionalGeneration(config)


class SmoothedTrainer(Trainer):
    """Label smoothing with an entropy bonus, averaged over the real phones of the batch."""

    def __init__(self, *args, epsilon=0.1, entropy_weight=0.01, **kwargs):
        super().__init__(*args, **kwargs)
        self.epsilon = epsilon
        self.entropy_weight = entropy_weight

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        labels = inputs["labels"]
        scored = labels.ne(-100)
        logp = F.log_softmax(outputs.logits[scored], dim=-1)
        nll = -logp.gather(1, labels[scored].unsqueeze(1)).squeeze(1)
        smooth = -logp.mean(dim=-1)
        entropy = -(logp.exp() * logp).sum(dim=-1)
        loss = ((1 - self.epsilon) * nll + self.epsilon * smooth - self.entropy_weight * entropy).mean()
        return (loss, outputs) if return_outputs else loss


class ConsoleLog(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            xm.master_print(f"step {state.global_step:3d} loss {float(logs['loss']):.4f} "
                            f"lr {float(logs['learning_rate']):.2e}")


def main():
    set_seed(77)
    model = build_model(ModelOptions())
    train_set = G2PDataset(invent_words(400, seed=77))
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=16,
            per_device_train_batch_size=8,
            learning_rate=0.1,
            lr_scheduler_type="cosine_with_min_lr",
            lr_scheduler_kwargs={"min_lr": 5e-3},
            warmup_steps=2,
            optim="sgd",
            max_grad_norm=1.0,
            logging_steps=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_drop_last=True,
            remove_unused_columns=False,
            seed=77,
        )
        trainer = SmoothedTrainer(
            model=model,
            args=args,
            train_dataset=train_set,
            data_collator=FixedCollator(),
            callbacks=[ConsoleLog()],
        )
        result = trainer.train()
    xm.master_print(f"trained {result.global_step} steps on {trainer.args.device}, mean loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
