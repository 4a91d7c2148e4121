"""Support-ticket routing with accelerate: tiny DistilBERT, accumulated gradients."""
import torch
import torch_xla.core.xla_model as xm
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    get_linear_schedule_with_warmup,
)

HP = {
    "seed": 17,
    "lr": 1e-3,
    "epochs": 4,
    "batch_size": 8,
    "eval_batch_size": 16,
    "accumulate": 4,
    "max_length": 24,
    "queues": 5,
    "clip": 1.0,
}


class Tickets(Dataset):
    """Token ids padded to one length; a handful of tokens give the queue away."""

    def __init__(self, n, seed, vocab=200):
        gen = torch.Generator().manual_seed(seed)
        length = HP["max_length"]
        self.labels = torch.randint(0, HP["queues"], (n,), generator=gen)
        self.ids = torch.randint(20, vocab, (n, length), generator=gen)
        self.mask = torch.ones(n, length, dtype=torch.long)
        for i in range(n):
            real = int(torch.randint(8, length + 1, (1,), generator=gen))
            self.ids[i, real:] = 0
            self.mask[i, real:] = 0
            spots = torch.randperm(real, generator=gen)[:3]
            self.ids[i, spots] = 2 + 3 * self.labels[i] + torch.arange(3)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": self.mask[i],
                "labels": self.labels[i]}


def build_model():
    config = DistilBertConfig(
        vocab_size=200, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
        max_position_embeddings=HP["max_length"], num_labels=HP["queues"],
        seq_classif_dropout=0.1)
    return DistilBertForSequenceClassification(config)


def evaluate(accelerator, model, loader):
    model.eval()
    hits, total = 0, 0
    for batch in loader:
        with torch.no_grad():
            logits = model(input_ids=batch["input_ids"],
                           attention_mask=batch["attention_mask"]).logits
        preds, refs = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
        hits += (preds.cpu() == refs.cpu()).sum().item()
        total += refs.shape[0]
    model.train()
    return hits / total


def main():
    set_seed(HP["seed"])
    accelerator = Accelerator(gradient_accumulation_steps=HP["accumulate"])

    train_loader = DataLoader(Tickets(128, 0), batch_size=HP["batch_size"],
                              shuffle=True, drop_last=True)
    eval_loader = DataLoader(Tickets(48, 1), batch_size=HP["eval_batch_size"])

    model = build_model()
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=HP["lr"])
    updates = HP["epochs"] * len(train_loader) // HP["accumulate"]
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, updates + 2)

    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler)
    model.train()

    done = 0
    for epoch in range(HP["epochs"]):
        total = torch.zeros((), device=accelerator.device)
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), HP["clip"])
                    done += 1
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            total += loss.detach()
            xm.mark_step()

        acc = evaluate(accelerator, model, eval_loader)
        if accelerator.is_main_process:
            print(f"epoch {epoch} updates {done} "
                  f"loss {total.item() / len(train_loader):.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
