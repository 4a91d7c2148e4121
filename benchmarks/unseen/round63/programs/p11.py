"""Secondary-structure tagging (H / E / C) for short peptides with a tiny ESM encoder.

The corpus is synthetic: residues are drawn from a per-class emission table so the
task is learnable, and sequences are padded to a fixed window of 48 residues.
"""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import Dataset
from transformers import (
    EsmConfig,
    EsmForTokenClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

SEED = 1207
MAX_LEN = 48
VOCAB = 26
PAD, CLS, EOS, MASK = 1, 0, 2, 25
NUM_STATES = 3
MAX_STEPS = 22


class PeptideDataset(Dataset):
    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        emission = rng.dirichlet(np.full(20, 0.25), size=NUM_STATES)
        trans = np.array([[0.86, 0.04, 0.10], [0.05, 0.80, 0.15], [0.12, 0.13, 0.75]])
        self.rows = []
        for _ in range(size):
            length = int(rng.integers(18, MAX_LEN - 2))
            state = int(rng.integers(NUM_STATES))
            ids, lab = [CLS], [-100]
            for _ in range(length):
                state = int(rng.choice(NUM_STATES, p=trans[state]))
                ids.append(4 + int(rng.choice(20, p=emission[state])))
                # unresolved residues in the crystal structure carry no assignment
                lab.append(state if rng.random() > 0.06 else -100)
            ids.append(EOS)
            lab.append(-100)
            fill = MAX_LEN - len(ids)
            self.rows.append(
                {
                    "input_ids": ids + [PAD] * fill,
                    "attention_mask": [1] * len(ids) + [0] * fill,
                    "labels": lab + [-100] * fill,
                }
            )

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        return self.rows[idx]


def collate(rows):
    return {key: torch.tensor([r[key] for r in rows]) for key in rows[0]}


class StructureTrainer(Trainer):
    def __init__(self, *args, class_weights=None, smoothing=0.05, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights
        self.smoothing = smoothing

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs.logits.view(-1, NUM_STATES)
        labels = labels.view(-1)
        resolved = labels != -100
        logits, labels = logits[resolved], labels[resolved]
        weight = self.class_weights.to(logits.device)
        loss = F.cross_entropy(logits, labels, weight=weight, label_smoothing=self.smoothing)
        return (loss, outputs) if return_outputs else loss


class StepBoundary(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        torch_xla.sync()
        return control


def build_model():
    config = EsmConfig(
        vocab_size=VOCAB,
        pad_token_id=PAD,
        mask_token_id=MASK,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=MAX_LEN + 4,
        position_embedding_type="rotary",
        token_dropout=False,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
        num_labels=NUM_STATES,
    )
    model = EsmForTokenClassification(config)
    nn.init.zeros_(model.classifier.bias)
    return model


def main():
    set_seed(SEED)
    train = PeptideDataset(240, SEED)
    counts = np.bincount([s for r in train.rows for s in r["labels"] if s >= 0], minlength=NUM_STATES)
    weights = torch.tensor(counts.sum() / (NUM_STATES * counts), dtype=torch.float32)

    args = TrainingArguments(
        output_dir="esm_ss3",
        per_device_train_batch_size=8,
        max_steps=MAX_STEPS,
        learning_rate=2e-3,
        warmup_steps=6,
        lr_scheduler_type="cosine",
        optim="adamw_torch",
        weight_decay=0.01,
        logging_steps=11,
        save_strategy="no",
        report_to=[],
        seed=SEED,
        dataloader_drop_last=True,
        disable_tqdm=True,
    )
    trainer = StructureTrainer(
        model=build_model(),
        args=args,
        train_dataset=train,
        data_collator=collate,
        callbacks=[StepBoundary()],
        class_weights=weights,
    )
    result = trainer.train()
    print(f"finished {result.global_step} steps, loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
