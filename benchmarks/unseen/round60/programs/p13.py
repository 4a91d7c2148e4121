"""Instruction tuning of a tiny Llama with the Hugging Face Trainer and layer-wise sampled updates."""
import tempfile

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import Dataset
from transformers import (LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed)

VOCAB, BLOCK, SEP, PAD = 96, 24, 1, 0


class ReverseInstructions(Dataset):
    """prompt <sep> answer: the answer is the prompt reversed; prompt tokens carry no loss."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            k = int(rng.integers(4, 11))
            prompt = rng.integers(2, VOCAB, k)
            ids = np.concatenate([prompt, [SEP], prompt[::-1]])
            labels = np.concatenate([np.full(k + 1, -100), prompt[::-1]])
            ids = np.pad(ids, (0, BLOCK - len(ids)), constant_values=PAD)
            labels = np.pad(labels, (0, BLOCK - len(labels)), constant_values=-100)
            self.rows.append({"input_ids": ids, "labels": labels, "attention_mask": (ids != PAD).astype(np.int64)})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {k: torch.as_tensor(v) for k, v in self.rows[i].items()}


class DynamicLayerActivation(TrainerCallback):
    def __init__(self, model, n_layers, interval_steps):
        self.layers = model.model.layers
        self.n_layers = n_layers
        self.interval_steps = interval_steps
        self.rng = np.random.default_rng(123)
        self.active = []
        self.freeze_all_layers()

    def freeze_all_layers(self):
        for layer in self.layers:
            for p in layer.parameters():
                p.requires_grad = False

    def switch_active_layers(self):
        self.freeze_all_layers()
        self.active = sorted(self.rng.choice(len(self.layers), self.n_layers, replace=False).tolist())
        for i in self.active:
            for p in self.layers[i].parameters():
                p.requires_grad = True

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step % self.interval_steps == 0:
            self.switch_active_layers()

    def on_step_end(self, args, state, control, **kwargs):
        xm.mark_step()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:3d}  loss {float(logs['loss']):.3f}  layers {self.active}")


class LayerwiseTrainer(Trainer):
    def create_optimizer(self, model=None):
        if self.optimizer is None:
            decay, plain = [], []
            for name, p in self.model.named_parameters():
                (plain if p.ndim == 1 or "embed" in name else decay).append(p)
            groups = [{"params": decay, "weight_decay": self.args.weight_decay},
                      {"params": plain, "weight_decay": 0.0}]
            self.optimizer = torch.optim.AdamW(groups, lr=self.args.learning_rate, betas=(0.9, 0.95))
        return self.optimizer


def main():
    set_seed(5)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=PAD,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=8,
            max_steps=26,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=4,
            weight_decay=0.05,
            max_grad_norm=1.0,
            logging_steps=10,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_drop_last=True,
            seed=5,
        )
        lisa = DynamicLayerActivation(model, n_layers=2, interval_steps=2)
        trainer = LayerwiseTrainer(model=model, args=args, train_dataset=ReverseInstructions(112, seed=3),
                                   callbacks=[lisa])
        result = trainer.train()
    print(f"finished {result.global_step} steps  train loss {result.training_loss:.3f}  on {torch_xla.device()}")


if __name__ == "__main__":
    main()
