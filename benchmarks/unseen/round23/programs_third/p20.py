"""LoRA fine-tuning of a tiny BERT pair classifier with accelerate and gradient accumulation."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

MAX_LEN = 20
CLS, SEP, PAD = 1, 2, 0


class PairTask(Dataset):
    """Two short token strings; label says whether the second repeats a token of the first."""

    def __init__(self, n, vocab=100, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            la, lb = (int(torch.randint(3, 8, (1,), generator=g)) for _ in range(2))
            a = torch.randint(3, vocab, (la,), generator=g).tolist()
            b = torch.randint(3, vocab, (lb,), generator=g).tolist()
            label = int(torch.randint(0, 2, (1,), generator=g))
            if label:
                b[0] = a[-1]
            self.rows.append((a, b, label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids = torch.full((len(rows), MAX_LEN), PAD)
    types = torch.zeros(len(rows), MAX_LEN, dtype=torch.long)
    for r, (a, b, _) in enumerate(rows):
        seq = [CLS, *a, SEP, *b, SEP]
        ids[r, :len(seq)] = torch.tensor(seq)
        types[r, len(a) + 2:len(seq)] = 1
    return {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": (ids != PAD).long(),
        "labels": torch.tensor([label for *_, label in rows]),
    }


def build():
    config = BertConfig(
        vocab_size=100, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=MAX_LEN, num_labels=2, attn_implementation="eager",
    )
    model = BertForSequenceClassification(config)
    lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=0.05,
                      target_modules=["query", "value"])
    return get_peft_model(model, lora)


def evaluate(accelerator, model, loader):
    model.eval()
    preds, refs = [], []
    for batch in loader:
        with torch.no_grad():
            logits = model(**batch).logits
        p, r = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
        preds.append(p.cpu())
        refs.append(r.cpu())
    model.train()
    return (torch.cat(preds) == torch.cat(refs)).float().mean().item()


def main(epochs=5, batch_size=8, accumulate=4):
    set_seed(13)
    accelerator = Accelerator(gradient_accumulation_steps=accumulate)
    train_loader = DataLoader(PairTask(128, seed=1), batch_size=batch_size, shuffle=True,
                              collate_fn=collate, drop_last=True)
    eval_loader = DataLoader(PairTask(64, seed=2), batch_size=16, collate_fn=collate)

    model = build()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, epochs * len(train_loader) // accumulate)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler)

    model.train()
    for epoch in range(epochs):
        running = torch.zeros(1).to(accelerator.device)
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                running += loss.detach()
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        acc = evaluate(accelerator, model, eval_loader)
        accelerator.print(f"epoch {epoch} loss {running.item() / len(train_loader):.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
