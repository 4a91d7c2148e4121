"""Fine-tune a tiny PatchTST classifier on synthetic vibration data with Trainer."""
import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (PatchTSTConfig, PatchTSTForClassification, Trainer,
                          TrainerCallback, TrainingArguments, set_seed)
import torch_xla

FAULTS = ("none", "imbalance", "bearing", "looseness")


class Vibration(Dataset):
    def __init__(self, n, length, channels, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(FAULTS), size=n)
        t = np.linspace(0, 4 * np.pi, length)[None, :, None]
        phase = rng.uniform(0, 2 * np.pi, size=(n, 1, channels))
        signal = np.sin(t + phase)
        kind = self.labels[:, None, None]
        signal = signal + (kind == 1) * 0.8 * np.sin(2 * t + phase)
        signal = signal + (kind == 2) * 0.6 * np.sign(np.sin(9 * t))
        signal = signal + (kind == 3) * 0.5 * np.abs(np.sin(0.5 * t + phase))
        noise = 0.2 * rng.normal(size=(n, length, channels))
        self.signal = (signal + noise).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"past_values": torch.from_numpy(self.signal[i]),
                "labels": int(self.labels[i])}


def collate(items):
    return {
        "past_values": torch.stack([it["past_values"] for it in items]),
        "target_values": torch.tensor([it["labels"] for it in items]),
    }


class Classifier(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.net = PatchTSTForClassification(config)
        self.criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.05)

    def forward(self, past_values, target_values=None):
        logits = self.net(past_values=past_values).prediction_logits
        if target_values is None:
            return {"logits": logits}
        return {"loss": self.criterion(logits, target_values), "logits": logits}


class Printer(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        keep = {k: round(float(v), 4) for k, v in (logs or {}).items()
                if k in ("loss", "eval_loss", "eval_accuracy")}
        if keep:
            print(f"step {state.global_step:3d} {keep}")


def compute_metrics(prediction):
    guess = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((guess == prediction.label_ids).mean())}


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max-steps", type=int, default=36)
    ap.add_argument("--eval-steps", type=int, default=9)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--length", type=int, default=48)
    ap.add_argument("--channels", type=int, default=2)
    return ap.parse_args()


def main():
    cli = get_args()
    set_seed(20)

    config = PatchTSTConfig(
        num_input_channels=cli.channels, context_length=cli.length, patch_length=8,
        patch_stride=8, d_model=32, num_attention_heads=4, num_hidden_layers=2,
        ffn_dim=64, num_targets=len(FAULTS), use_cls_token=True,
        attention_dropout=0.0, ff_dropout=0.1, head_dropout=0.0,
        norm_type="layernorm")
    model = Classifier(config)

    train = Vibration(40 * cli.batch_size, cli.length, cli.channels, seed=1)
    valid = Vibration(4 * cli.batch_size, cli.length, cli.channels, seed=2)

    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(
            output_dir=out, max_steps=cli.max_steps,
            per_device_train_batch_size=cli.batch_size,
            per_device_eval_batch_size=cli.batch_size,
            gradient_accumulation_steps=cli.accumulate,
            learning_rate=2e-3, lr_scheduler_type="cosine", warmup_steps=4,
            max_grad_norm=1.0, optim="adamw_torch",
            logging_steps=cli.eval_steps, eval_strategy="steps",
            eval_steps=cli.eval_steps, save_strategy="no", report_to=[],
            label_names=["target_values"], dataloader_drop_last=True,
            remove_unused_columns=False, disable_tqdm=True, seed=20)
        trainer = Trainer(model=model, args=targs, train_dataset=train,
                          eval_dataset=valid, data_collator=collate,
                          compute_metrics=compute_metrics, callbacks=[Printer()])
        trainer.train()
        torch_xla.sync()
        final = trainer.evaluate()
        print(f"final accuracy {final['eval_accuracy']:.3f}")


if __name__ == "__main__":
    main()
