"""One frozen encoder, one LoRA adapter per clinic, trained side by side with PEFT."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

CLINICS = {"north": 4, "harbour": 8, "hill": 4}  # adapter name -> LoRA rank
MAX_LEN = 40
VOCAB = 120
LABELS = 3
BATCH = 12
ROUNDS = 18
PRINT_EVERY = 6
CLS, SEP, PAD = 1, 2, 0


class Notes:
    """Triage notes: urgency depends on clinic specific key words."""

    def __init__(self, clinic, seed):
        self.rng = np.random.default_rng(seed)
        lexicon = np.random.default_rng(sum(clinic.encode()))
        self.keys = lexicon.permutation(np.arange(10, VOCAB))[:LABELS * 4].reshape(LABELS, 4)

    def note(self):
        label = int(self.rng.integers(LABELS))
        n = int(self.rng.integers(8, 60))
        words = self.rng.integers(10, VOCAB, size=n)
        hits = self.rng.random(n) < 0.35
        words[hits] = self.rng.choice(self.keys[label], size=hits.sum())
        return words, label

    def batch(self, size):
        ids = np.full((size, MAX_LEN), PAD, dtype=np.int64)
        labels = np.zeros(size, dtype=np.int64)
        for i in range(size):
            words, labels[i] = self.note()
            tokens = [CLS, *words[:MAX_LEN - 2], SEP]
            ids[i, :len(tokens)] = tokens
        ids = torch.from_numpy(ids)
        return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": torch.from_numpy(labels)}


def build(device):
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=MAX_LEN,
        num_labels=LABELS,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    base = BertForSequenceClassification(config)
    model = None
    for name, rank in CLINICS.items():
        lora = LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            lora_dropout=0.05,
            target_modules=["query", "value", "dense"],
            exclude_modules=["classifier"],
            modules_to_save=["classifier"],
        )
        if model is None:
            model = get_peft_model(base, lora, adapter_name=name)
        else:
            model.add_adapter(name, lora)
    return model.to(device)


def make_optimizers(model):
    optimizers, schedulers = {}, {}
    for name in CLINICS:
        model.set_adapter(name)
        params = [p for p in model.parameters() if p.requires_grad]
        optimizers[name] = torch.optim.AdamW(params, lr=8e-3, weight_decay=0.0)
        schedulers[name] = torch.optim.lr_scheduler.LinearLR(
            optimizers[name], start_factor=1.0, end_factor=0.2, total_iters=ROUNDS)
    return optimizers, schedulers


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


def train_step(model, batch, optimizer, scheduler):
    model.train()
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    xm.optimizer_step(optimizer)
    scheduler.step()
    torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    hits, total = [], 0
    for batch in batches:
        logits = model(**batch).logits
        hits.append((logits.argmax(-1) == batch["labels"]).sum())
        total += batch["labels"].numel()
        torch_xla.sync()
    return sum(h.item() for h in hits) / total


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    streams = {name: Notes(name, seed=40 + i) for i, name in enumerate(CLINICS)}
    held_out = {name: [to_device(streams[name].batch(BATCH), device) for _ in range(2)] for name in CLINICS}

    model = build(device)
    optimizers, schedulers = make_optimizers(model)
    order = np.random.default_rng(31)

    for rnd in range(1, ROUNDS + 1):
        losses = {}
        for name in order.permutation(list(CLINICS)):
            model.set_adapter(str(name))
            batch = to_device(streams[name].batch(BATCH), device)
            losses[name] = train_step(model, batch, optimizers[name], schedulers[name])
        if rnd % PRINT_EVERY == 0:
            for name in CLINICS:
                model.set_adapter(name)
                acc = accuracy(model, held_out[name])
                print(f"round {rnd:2d}  {name:8s} loss {losses[name].item():.4f}  acc {acc:.3f}")


if __name__ == "__main__":
    main()
