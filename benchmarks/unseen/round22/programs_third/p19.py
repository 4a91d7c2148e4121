"""Fine-tune a small BART on a synthetic 'sort the tokens' rewriting task with the HF Trainer."""
import os
import tempfile

os.environ.setdefault("WANDB_DISABLED", "true")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils.data import Dataset
from transformers import BartConfig, BartForConditionalGeneration, Trainer, TrainerCallback, TrainingArguments, set_seed

VOCAB = 64
PAD, BOS, EOS = 1, 0, 2
SRC_LEN = TGT_LEN = 12


class SortDataset(Dataset):
    """Source: random tokens. Target: the same tokens in ascending order."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        body = torch.randint(4, VOCAB, (n, SRC_LEN - 2), generator=g)
        bos = torch.full((n, 1), BOS)
        eos = torch.full((n, 1), EOS)
        self.src = torch.cat([bos, body, eos], 1)
        self.tgt = torch.cat([bos, body.sort(1).values, eos], 1)

    def __len__(self):
        return len(self.src)

    def __getitem__(self, i):
        return {
            "input_ids": self.src[i],
            "attention_mask": torch.ones(SRC_LEN, dtype=torch.long),
            "labels": self.tgt[i],
        }


def build_model():
    config = BartConfig(
        vocab_size=VOCAB,
        max_position_embeddings=32,
        d_model=16,
        encoder_layers=3,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        encoder_layerdrop=0.3,
        init_std=0.1,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=None,
        attn_implementation="eager",
    )
    return BartForConditionalGeneration(config)


class LossPrinter(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step} loss {float(logs['loss']):.4f}", flush=True)


def main():
    set_seed(17)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=40,
            per_device_train_batch_size=8,
            learning_rate=0.1,
            lr_scheduler_type="linear",
            warmup_steps=5,
            weight_decay=0.0,
            max_grad_norm=0.0,
            optim="sgd",
            logging_steps=10,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_drop_last=True,
            dataloader_num_workers=0,
            seed=17,
        )
        trainer = Trainer(
            model=build_model(),
            args=args,
            train_dataset=SortDataset(400, seed=1),
            callbacks=[LossPrinter()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
