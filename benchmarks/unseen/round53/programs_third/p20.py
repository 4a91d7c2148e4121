"""Masked-residue pre-training of a tiny ESM-like encoder with the Hugging Face Trainer."""
import random
import tempfile
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset
from transformers import EsmConfig, EsmForMaskedLM, Trainer, TrainerCallback, TrainingArguments

AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD, CLS, EOS, MASK = 0, 1, 2, 3
VOCAB = {aa: i + 4 for i, aa in enumerate(AMINO)}
MAX_LENGTH = 96
HYDROPHOBIC = "AILMFVW"
POLAR = "DEKRNQSTGH"


def random_protein(rng):
    """Alternating helix-like, strand-like and loop segments."""
    seq = []
    target = rng.randint(20, 110)
    while len(seq) < target:
        kind = rng.choice(("helix", "strand", "loop"))
        for i in range(rng.randint(4, 12)):
            if kind == "helix":
                pool = HYDROPHOBIC if i % 4 in (0, 3) else POLAR
            elif kind == "strand":
                pool = HYDROPHOBIC if i % 2 == 0 else POLAR
            else:
                pool = "GPNSD"
            seq.append(rng.choice(pool))
    return "".join(seq[:target])


class ProteinDataset(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            ids = [VOCAB[a] for a in random_protein(rng)][: MAX_LENGTH - 2]
            self.items.append([CLS] + ids + [EOS])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return {"input_ids": self.items[i]}


@dataclass
class MaskingCollator:
    """BERT masking: 15% of residues; 80% mask, 10% random, 10% kept."""

    probability: float = 0.15

    def __call__(self, features):
        rows = [torch.tensor(f["input_ids"]) for f in features]
        input_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        attention_mask = (input_ids != PAD).long()
        residue = input_ids >= 4
        chosen = (torch.rand(input_ids.shape) < self.probability) & residue
        labels = torch.where(chosen, input_ids, torch.full_like(input_ids, -100))
        roll = torch.rand(input_ids.shape)
        noise = torch.randint(4, 4 + len(AMINO), input_ids.shape)
        input_ids = torch.where(chosen & (roll < 0.8), torch.full_like(input_ids, MASK), input_ids)
        input_ids = torch.where(chosen & (roll >= 0.9), noise, input_ids)
        return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


class LossPrinter(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']:.4f}")


def build_model():
    config = EsmConfig(
        vocab_size=4 + len(AMINO),
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=MAX_LENGTH + 2,
        pad_token_id=PAD,
        mask_token_id=MASK,
        position_embedding_type="rotary",
        token_dropout=False,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return EsmForMaskedLM(config)


def main():
    torch.manual_seed(20)
    random.seed(20)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=20,
            per_device_train_batch_size=4,
            learning_rate=2e-3,
            optim="adamw_torch",
            warmup_steps=5,
            lr_scheduler_type="cosine",
            logging_steps=5,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_drop_last=True,
            seed=20,
        )
        trainer = Trainer(
            model=build_model(),
            args=args,
            train_dataset=ProteinDataset(240, seed=20),
            data_collator=MaskingCollator(),
            callbacks=[LossPrinter()],
        )
        result = trainer.train()
        print(f"done: {result.global_step} steps, mean loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
