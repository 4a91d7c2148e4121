"""Keyword spotting: a small wav2vec 2.0 classifier trained from scratch on synthetic tones."""
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, get_linear_schedule_with_warmup

WORDS = ["up", "down", "left", "right"]
RATE = 4000
SAMPLES = 1000
MAX_STEPS = 18
WARMUP = 4


class ToneWords(Dataset):
    """Every 'word' is a pair of chirps. Clips are cut or padded to one length."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.labels = self.rng.integers(0, len(WORDS), n)
        self.clips = [self.render(int(k)) for k in self.labels]

    def render(self, k):
        dur = int(self.rng.integers(700, 1200))
        t = np.arange(dur) / RATE
        f0, f1 = 200 + 150 * k, 900 - 120 * k
        wave = np.sin(2 * np.pi * (f0 * t + 80 * t * t)) + 0.5 * np.sin(2 * np.pi * f1 * t)
        wave = wave + 0.1 * self.rng.normal(size=dur)
        wave = (wave - wave.mean()) / (wave.std() + 1e-7)
        return wave.astype(np.float32)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        return self.clips[i], int(self.labels[i])


def collate(items):
    values = np.zeros((len(items), SAMPLES), dtype=np.float32)
    for row, (wave, _) in enumerate(items):
        n = min(len(wave), SAMPLES)
        values[row, :n] = wave[:n]
    return {
        "input_values": torch.from_numpy(values),
        "labels": torch.tensor([label for _, label in items]),
    }


def build_model():
    config = Wav2Vec2Config(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_stride=(8, 5),
        conv_kernel=(16, 10),
        feat_extract_norm="group",
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        hidden_dropout=0.05,
        attention_dropout=0.0,
        apply_spec_augment=False,
        num_labels=len(WORDS),
        classifier_proj_size=32,
        id2label=dict(enumerate(WORDS)),
        label2id={w: i for i, w in enumerate(WORDS)},
    )
    return Wav2Vec2ForSequenceClassification(config)


def param_groups(model, decay=0.01):
    plain, decayed = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        (plain if p.ndim < 2 or "norm" in name else decayed).append(p)
    return [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits, n = torch.zeros((), device=device), 0
    for batch in loader:
        logits = model(input_values=batch["input_values"].to(device)).logits
        hits += (logits.argmax(-1) == batch["labels"].to(device)).sum()
        n += len(batch["labels"])
        torch_xla.sync()
    model.train()
    return hits.item() / n


def main():
    torch.manual_seed(9)
    np.random.seed(9)
    device = torch_xla.device()
    train = DataLoader(ToneWords(128, 0), batch_size=8, shuffle=True, drop_last=True, collate_fn=collate)
    valid = DataLoader(ToneWords(32, 1), batch_size=8, collate_fn=collate)

    model = build_model().to(device)
    model.freeze_feature_encoder()
    opt = torch.optim.AdamW(param_groups(model), lr=1e-3)
    sched = get_linear_schedule_with_warmup(opt, WARMUP, MAX_STEPS)
    model.train()

    step = 0
    while step < MAX_STEPS:
        for batch in train:
            batch = {k: v.to(device) for k, v in batch.items()}
            out = model(**batch)
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            xm.optimizer_step(opt, barrier=True)
            sched.step()
            opt.zero_grad()
            step += 1
            if step % 9 == 0:
                print(f"step {step}  loss {out.loss.item():.4f}  accuracy {evaluate(model, valid, device):.3f}")
            if step >= MAX_STEPS:
                break


if __name__ == "__main__":
    main()
