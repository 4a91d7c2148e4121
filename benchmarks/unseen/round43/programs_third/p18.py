"""Per-residue secondary structure with a tiny ESM encoder and the HF Trainer.

Sequences are padded to one length by the collator. Residues without a
reliable DSSP assignment carry the ignore label.
"""
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset
from transformers import (EsmConfig, EsmForTokenClassification, Trainer,
                          TrainerCallback, TrainingArguments, set_seed)

IGNORE = -100
PAD, CLS, EOS, MASK = 1, 0, 2, 32
MAX_LEN = 48
CLASSES = 3


class Chains(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            length = int(rng.integers(18, MAX_LEN - 2))
            seq = rng.integers(4, 24, length)
            helix = np.convolve(seq % 5 < 2, np.ones(4), mode="same") > 1
            sheet = np.convolve(seq % 7 > 4, np.ones(3), mode="same") > 1
            ss = np.where(helix, 1, np.where(sheet, 2, 0))
            ss[rng.random(length) < 0.12] = IGNORE
            self.rows.append((seq, ss))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        seq, ss = self.rows[i]
        return {"seq": seq, "ss": ss}


def collate(rows):
    ids = torch.full((len(rows), MAX_LEN), PAD, dtype=torch.long)
    labels = torch.full((len(rows), MAX_LEN), IGNORE, dtype=torch.long)
    for i, row in enumerate(rows):
        n = len(row["seq"])
        ids[i, 0] = CLS
        ids[i, 1:n + 1] = torch.from_numpy(row["seq"])
        ids[i, n + 1] = EOS
        labels[i, 1:n + 1] = torch.from_numpy(row["ss"])
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


class FocalTrainer(Trainer):
    """Class-weighted focal loss over the annotated residues."""

    def __init__(self, *args, class_weights, gamma=1.5, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights.to(self.args.device)
        self.gamma = gamma

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs.logits.view(-1, CLASSES)
        flat = labels.view(-1)
        active = flat != IGNORE
        logits, flat = logits[active], flat[active]

        logp = torch.log_softmax(logits, dim=-1)
        gold = logp.gather(1, flat.unsqueeze(1)).squeeze(1)
        weight = self.class_weights[flat]
        loss = -(weight * (1 - gold.exp()).pow(self.gamma) * gold).sum() / weight.sum()
        return (loss, outputs) if return_outputs else loss


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d} loss {float(logs['loss']):.4f} "
                  f"lr {logs['learning_rate']:.2e}")


def inverse_frequency(data):
    labels = np.concatenate([ss for _, ss in data.rows])
    count = np.bincount(labels[labels >= 0], minlength=CLASSES)
    return torch.tensor(count.sum() / (CLASSES * count), dtype=torch.float32)


def build_model():
    config = EsmConfig(
        vocab_size=33, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=MAX_LEN + 2,
        position_embedding_type="rotary", pad_token_id=PAD, mask_token_id=MASK,
        token_dropout=False, num_labels=CLASSES,
        hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0)
    return EsmForTokenClassification(config)


def main():
    set_seed(19)
    data = Chains(240, seed=19)
    model = build_model()

    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=8,
            max_steps=20,
            learning_rate=2e-3,
            warmup_steps=5,
            lr_scheduler_type="cosine",
            optim="adamw_torch",
            weight_decay=0.01,
            max_grad_norm=1.0,
            logging_steps=5,
            save_strategy="no",
            eval_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_drop_last=True,
            seed=19,
        )
        trainer = FocalTrainer(
            model=model,
            args=args,
            train_dataset=data,
            data_collator=collate,
            class_weights=inverse_frequency(data),
            callbacks=[Report()],
        )
        result = trainer.train()
    print(f"finished: {result.global_step} steps, mean loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
