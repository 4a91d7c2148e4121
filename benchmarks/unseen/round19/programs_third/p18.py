"""Masked-code pretraining on insurance claim histories with a small ModernBERT."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import ModernBertConfig, ModernBertForMaskedLM, Trainer, TrainingArguments, set_seed

PAD, MASK, CLS, SEP = 0, 1, 2, 3
CODES = 150
LENGTH = 32


class ClaimHistories(Dataset):
    """One row per policy holder: procedure codes, then fees in bands, in time order."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(count):
            n = int(torch.randint(10, LENGTH - 2, (1,), generator=g))
            start = int(torch.randint(0, CODES, (1,), generator=g))
            jumps = torch.randint(1, 4, (n,), generator=g).cumsum(0)
            self.rows.append(((start + jumps) % CODES + 4).tolist())

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"codes": self.rows[i]}


class MaskCodes:
    def __init__(self, probability, seed):
        self.probability = probability
        self.gen = torch.Generator().manual_seed(seed)

    def __call__(self, items):
        ids = torch.full((len(items), LENGTH), PAD)
        for r, item in enumerate(items):
            row = [CLS] + item["codes"] + [SEP]
            ids[r, : len(row)] = torch.tensor(row)
        attention = (ids != PAD).long()
        chosen = torch.rand(ids.shape, generator=self.gen) < self.probability
        chosen &= ids > SEP
        labels = ids.masked_fill(~chosen, -100)
        return {
            "input_ids": ids.masked_fill(chosen, MASK),
            "attention_mask": attention,
            "labels": labels,
        }


def build_model():
    config = ModernBertConfig(
        vocab_size=CODES + 4,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        local_attention=16,
        pad_token_id=PAD,
        cls_token_id=CLS,
        sep_token_id=SEP,
        bos_token_id=CLS,
        eos_token_id=SEP,
        sparse_prediction=True,
        reference_compile=False,
        attn_implementation="sdpa",
    )
    return ModernBertForMaskedLM(config)


def main():
    set_seed(18)
    model = build_model()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=8,
            max_steps=30,
            learning_rate=1e-3,
            optim="adamw_torch",
            warmup_steps=4,
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            remove_unused_columns=False,
            dataloader_drop_last=True,
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=ClaimHistories(400, seed=3),
            data_collator=MaskCodes(0.3, seed=9),
        )
        result = trainer.train()
    print(f"steps {result.global_step} loss {result.training_loss:.3f}")


if __name__ == "__main__":
    main()
