"""Keyword spotting with a tiny data2vec audio encoder, two-group learning rates and a weight average."""
import copy

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from transformers import Data2VecAudioConfig, Data2VecAudioForSequenceClassification, get_cosine_schedule_with_warmup

KEYWORDS = ["up", "down", "left", "right", "stop"]


class SpokenWords(Dataset):
    """Two-tone chirps of one class each; speakers differ in pitch and tempo."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            label = int(rng.integers(len(KEYWORDS)))
            length = int(rng.integers(220, 420))
            t = np.arange(length) / 200.0
            pitch = rng.uniform(0.9, 1.1)
            f0, f1 = pitch * (4 + 3 * label), pitch * (20 - 2 * label)
            sweep = np.sin(2 * np.pi * (f0 * t + 0.5 * (f1 - f0) * t ** 2 / t[-1]))
            wave = sweep * np.hanning(length) + 0.05 * rng.standard_normal(length)
            self.items.append((wave.astype(np.float32), label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collator:
    def __init__(self, normalize=True):
        self.normalize = normalize

    def __call__(self, batch):
        waves, labels = zip(*batch)
        width = max(len(w) for w in waves)
        out = np.zeros((len(waves), width), dtype=np.float32)
        for row, w in zip(out, waves):
            if self.normalize:
                w = (w - w.mean()) / np.sqrt(w.var() + 1e-7)
            row[: len(w)] = w
        return {"input_values": torch.from_numpy(out), "labels": torch.tensor(labels)}


def build_model():
    config = Data2VecAudioConfig(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_kernel=(10, 3),
        conv_stride=(5, 2),
        conv_bias=True,
        num_conv_pos_embeddings=1,
        conv_pos_kernel_size=5,
        num_conv_pos_embedding_groups=2,
        layerdrop=0.0,
        mask_time_prob=0.35,
        mask_time_length=5,
        mask_time_min_masks=2,
        hidden_dropout=0.05,
        attention_dropout=0.05,
        classifier_proj_size=24,
        num_labels=len(KEYWORDS),
        attn_implementation="eager",
    )
    return Data2VecAudioForSequenceClassification(config)


def parameter_groups(model, head_lr, body_lr):
    head = [p for n, p in model.named_parameters() if n.startswith(("projector", "classifier"))]
    body = [p for n, p in model.named_parameters()
            if not n.startswith(("projector", "classifier")) and p.requires_grad]
    return [{"params": head, "lr": head_lr}, {"params": body, "lr": body_lr}]


@torch.no_grad()
def update_average(average, model, decay):
    for a, p in zip(average.parameters(), model.parameters()):
        a.lerp_(p, 1.0 - decay)


@torch.no_grad()
def test_accuracy(model, data, device, width=420):
    model.eval()
    waves = np.zeros((len(data), width), dtype=np.float32)
    for row, (w, _) in zip(waves, data):
        row[: len(w)] = (w - w.mean()) / np.sqrt(w.var() + 1e-7)
    labels = torch.tensor([label for _, label in data])
    logits = model(torch.from_numpy(waves).to(device)).logits
    return (logits.argmax(-1).cpu() == labels).float().mean().item()


def main():
    torch.manual_seed(31)
    np.random.seed(31)
    device = torch_xla.device()
    torch_xla.manual_seed(31)
    model = build_model()
    model.freeze_feature_encoder()
    model = model.to(device)
    average = copy.deepcopy(model).requires_grad_(False)

    loader = DataLoader(SpokenWords(80, seed=1), batch_size=8, shuffle=True, drop_last=True,
                        collate_fn=Collator(), generator=torch.Generator().manual_seed(6))
    test = [SpokenWords(24, seed=2)[i] for i in range(24)]
    opt = torch.optim.SGD(parameter_groups(model, 0.1, 0.03), momentum=0.9, weight_decay=1e-4)
    sched = get_cosine_schedule_with_warmup(opt, num_warmup_steps=4, num_training_steps=15)
    torch_xla.sync()

    step = 0
    while step < 15:
        for batch in loader:
            model.train()
            batch = {k: v.to(device) for k, v in batch.items()}
            logits = model(batch["input_values"]).logits
            loss = F.cross_entropy(logits, batch["labels"], label_smoothing=0.1)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            sched.step()
            update_average(average, model, decay=0.9)
            torch_xla.sync()
            step += 1
            if step % 5 == 0:
                acc = test_accuracy(average, test, device)
                xm.master_print(f"step {step:3d}  loss {loss.item():.3f}  averaged accuracy {acc:.2f}")
            if step == 15:
                break


if __name__ == "__main__":
    main()
