"""Masked-token pre-training of a tiny BERT on synthetic event logs with the Transformers Trainer."""
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments, set_seed

PAD, MASK, FIRST = 0, 1, 2
VOCAB = 26
LENGTH = 16


class EventLogs(Dataset):
    """Cyclic event sequences with a random start and stride."""

    def __init__(self, n, seed=19):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(0, VOCAB - FIRST, (n, 1), generator=g)
        stride = torch.randint(1, 4, (n, 1), generator=g)
        self.rows = FIRST + (start + stride * torch.arange(LENGTH)) % (VOCAB - FIRST)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class MaskingCollator:
    """Hides a share of the events and records where they were."""

    def __init__(self, probability=0.2, seed=29):
        self.probability = probability
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, rows):
        tokens = torch.stack(rows)
        hidden = torch.rand(tokens.shape, generator=self.generator) < self.probability
        positions = hidden.flatten().nonzero().squeeze(1)
        return {
            "input_ids": tokens.masked_fill(hidden, MASK),
            "positions": positions,
            "answers": tokens.flatten()[positions],
        }


class MaskedEventTrainer(Trainer):
    """Runs the output layer on the hidden positions alone."""

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        hidden = model.bert(input_ids=inputs["input_ids"]).last_hidden_state
        picked = hidden.flatten(0, 1).index_select(0, inputs["positions"])
        logits = model.cls(picked)
        loss = F.cross_entropy(logits, inputs["answers"])
        return (loss, {"logits": logits}) if return_outputs else loss


def build_model():
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
    )
    return BertForMaskedLM(config)


def training_arguments(output_dir):
    return TrainingArguments(
        output_dir=output_dir,
        per_device_train_batch_size=8,
        max_steps=32,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        dataloader_drop_last=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        logging_steps=8,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=23,
    )


def main():
    set_seed(23)
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = MaskedEventTrainer(
            model=build_model(),
            args=training_arguments(output_dir),
            train_dataset=EventLogs(256),
            data_collator=MaskingCollator(),
        )
        result = trainer.train()
    print(f"steps {result.global_step}  training loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
