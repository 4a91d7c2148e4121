"""Tagging of packed token blocks with a tiny BERT under Accelerate, with gradient accumulation
and an evaluation pass after each epoch."""
import numpy as np
import torch
import torchmetrics
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForTokenClassification

hparams = {
    "lr": 1e-3,
    "batch_size": 8,
    "accumulation": 4,
    "epochs": 4,
    "length": 20,
    "num_labels": 5,
    "max_grad_norm": 1.0,
}


class TagDataset(Dataset):
    """Tag of a token = its id modulo 5, shifted when the previous token is a marker."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            ids = rng.integers(5, 60, hparams["length"])
            marked = np.r_[False, ids[:-1] % 7 == 0]
            self.rows.append((ids, (ids + marked) % hparams["num_labels"]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, tags = self.rows[i]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(tags)}


def build():
    config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=32, num_labels=hparams["num_labels"])
    return BertForTokenClassification(config)


def main():
    set_seed(17)
    accelerator = Accelerator(gradient_accumulation_steps=hparams["accumulation"])
    train_loader = DataLoader(TagDataset(160, 0), batch_size=hparams["batch_size"], shuffle=True, drop_last=True)
    eval_loader = DataLoader(TagDataset(32, 1), batch_size=hparams["batch_size"])
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=hparams["lr"])
    model, optimizer, train_loader, eval_loader = accelerator.prepare(model, optimizer, train_loader, eval_loader)

    metric = torchmetrics.classification.MulticlassAccuracy(
        num_classes=hparams["num_labels"], average="micro")

    for epoch in range(hparams["epochs"]):
        model.train()
        total = torch.zeros((), device=accelerator.device)
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), hparams["max_grad_norm"])
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
        mean_loss = total.item() / len(train_loader)

        model.eval()
        for batch in eval_loader:
            with torch.no_grad():
                logits = model(input_ids=batch["input_ids"]).logits
            preds, labels = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
            metric.update(preds.cpu(), labels.cpu())
        print(f"epoch {epoch}: loss {mean_loss:.4f} acc {metric.compute().item():.3f}")
        metric.reset()


if __name__ == "__main__":
    main()
