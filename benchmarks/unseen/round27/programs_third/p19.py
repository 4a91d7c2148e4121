"""LoRA tuning of a small encoder for intent detection with accelerate."""
import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

MAX_LEN = 24
VOCAB = 200
N_INTENTS = 5


class Intents(Dataset):

    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.examples = []
        for _ in range(size):
            label = int(rng.integers(N_INTENTS))
            n = int(rng.integers(6, MAX_LEN - 1))
            body = rng.integers(60, VOCAB, n)
            keys = rng.random(n) < 0.35
            body[keys] = 10 + 10 * label + rng.integers(0, 10, keys.sum())
            self.examples.append(([1] + body.tolist() + [2], label))

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, i):
        ids, label = self.examples[i]
        pad = MAX_LEN - len(ids[:MAX_LEN])
        ids = ids[:MAX_LEN]
        return {
            "input_ids": torch.tensor(ids + [0] * pad),
            "attention_mask": torch.tensor([1] * len(ids) + [0] * pad),
            "labels": torch.tensor(label),
        }


def build_model():
    config = BertConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=MAX_LEN, num_labels=N_INTENTS,
                        hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.0)
    base = BertForSequenceClassification(config)
    lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=16, lora_dropout=0.05,
                      target_modules=["query", "value"], modules_to_save=["classifier"])
    return get_peft_model(base, lora)


def evaluate(model, loader, accelerator):
    model.eval()
    correct = total = 0
    for batch in loader:
        with torch.no_grad():
            logits = model(**batch).logits
        pred = logits.argmax(-1)
        pred, gold = accelerator.gather_for_metrics((pred, batch["labels"]))
        correct += (pred.cpu() == gold.cpu()).sum().item()
        total += gold.shape[0]
    model.train()
    return correct / total


def main():
    set_seed(5)
    epochs, batch_size, accum = 5, 16, 4
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    train = DataLoader(Intents(256, 0), batch_size=batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(Intents(64, 1), batch_size=batch_size, drop_last=True)
    model = build_model()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, epochs * len(train) // accum + 4)
    model, optimizer, train, valid, scheduler = accelerator.prepare(model, optimizer, train, valid, scheduler)

    for epoch in range(epochs):
        model.train()
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        acc = evaluate(model, valid, accelerator)
        accelerator.print(f"epoch {epoch} accuracy {acc:.3f} lr {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
