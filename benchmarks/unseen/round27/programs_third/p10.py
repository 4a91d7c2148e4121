"""Keyword spotting: tiny wav2vec2 encoder + classification head, HF Trainer."""
import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, Wav2Vec2Config, Wav2Vec2ForSequenceClassification

SAMPLE_RATE = 4000
KEYWORDS = ["yes", "no", "stop", "go"]


class ToneWords(Dataset):
    """Each keyword is a pair of tones; fixed 1/8 s clips."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        t = np.arange(SAMPLE_RATE // 8) / SAMPLE_RATE
        self.labels = rng.integers(0, len(KEYWORDS), n)
        base = 200 + 150 * self.labels[:, None]
        wave = np.sin(2 * np.pi * base * t) + 0.5 * np.sin(2 * np.pi * 2.5 * base * t)
        wave = wave + 0.2 * rng.normal(size=wave.shape)
        self.wave = ((wave - wave.mean(1, keepdims=True)) / wave.std(1, keepdims=True)).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_values": torch.from_numpy(self.wave[i]), "labels": int(self.labels[i])}


def build_model():
    config = Wav2Vec2Config(
        hidden_size=24,
        num_hidden_layers=5,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(12, 12),
        conv_kernel=(10, 8),
        conv_stride=(5, 4),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=16,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        layerdrop=0.2,
        apply_spec_augment=False,
        num_labels=len(KEYWORDS),
        label2id={w: i for i, w in enumerate(KEYWORDS)},
        id2label={i: w for i, w in enumerate(KEYWORDS)},
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    return model


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step}: {logs['loss']:.4f}")


def main():
    torch.manual_seed(21)
    args = TrainingArguments(
        output_dir="kws_out",
        max_steps=50,
        per_device_train_batch_size=8,
        learning_rate=0.05,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=1.0,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        dataloader_drop_last=True,
        disable_tqdm=True,
        seed=21,
    )
    trainer = Trainer(
        model=build_model(),
        args=args,
        train_dataset=ToneWords(160, 1),
        callbacks=[PrintLoss()],
    )
    trainer.train()
    probe = ToneWords(32, 2)
    batch = torch.from_numpy(probe.wave).to(trainer.model.device)
    trainer.model.eval()
    with torch.no_grad():
        pred = trainer.model(input_values=batch).logits.argmax(-1).cpu().numpy()
    print("held-out accuracy", (pred == probe.labels).mean())


if __name__ == "__main__":
    main()
