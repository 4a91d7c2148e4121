"""Bi-encoder retrieval with a tiny BERT, LoRA adapters (peft) and accelerate.

Two adapters share one frozen encoder: one for questions, one for passages.  They are
trained in turn, the other side's vectors being treated as constants, with gradient
accumulation handled by accelerate.  Recall is measured after every epoch.
"""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertModel, get_linear_schedule_with_warmup

VOCAB, Q_LEN, P_LEN = 200, 10, 24
ACCUM = 2
EPOCHS = 4


class Pairs(Dataset):
    """A passage holds a few topic tokens; its question repeats some of them."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        topic = torch.randint(10, VOCAB, (n, 6), generator=g)
        fill = torch.randint(10, VOCAB, (n, P_LEN - 7), generator=g)
        self.passage = torch.cat([torch.ones(n, 1, dtype=torch.long), topic, fill], dim=1)
        self.question = torch.zeros(n, Q_LEN, dtype=torch.long)
        self.question[:, 0] = 1
        self.mask = torch.zeros(n, Q_LEN, dtype=torch.long)
        for i in range(n):
            k = int(torch.randint(3, 7, (1,), generator=g))
            self.question[i, 1:1 + k] = topic[i, torch.randperm(6, generator=g)[:k]]
            self.mask[i, :1 + k] = 1

    def __len__(self):
        return len(self.passage)

    def __getitem__(self, i):
        return {"question": self.question[i], "question_mask": self.mask[i], "passage": self.passage[i]}


def build_encoder():
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=32, attn_implementation="eager",
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["query", "value", "dense"])
    model = get_peft_model(BertModel(config, add_pooling_layer=False), lora, adapter_name="question")
    model.add_adapter("passage", lora)
    return model


def encode(model, adapter, ids, mask=None):
    model.set_adapter(adapter)
    if mask is None:
        mask = torch.ones_like(ids)
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)


def both_sides(model, batch, train_side):
    sides = {
        "question": (batch["question"], batch["question_mask"]),
        "passage": (batch["passage"], None),
    }
    other = "passage" if train_side == "question" else "question"
    vec = {}
    with torch.no_grad():
        vec[other] = encode(model, other, *sides[other])
    vec[train_side] = encode(model, train_side, *sides[train_side])
    return vec["question"], vec["passage"]


def in_batch_loss(q, p, temperature=0.1):
    logits = q @ p.t() / temperature
    return F.cross_entropy(logits, torch.arange(q.size(0), device=q.device))


@torch.no_grad()
def recall_at_one(model, loader, accelerator):
    model.eval()
    hits = []
    for batch in loader:
        q = encode(model, "question", batch["question"], batch["question_mask"])
        p = encode(model, "passage", batch["passage"])
        hit = (q @ p.t()).argmax(-1) == torch.arange(q.size(0), device=q.device)
        hits.append(accelerator.gather_for_metrics(hit.float()).mean().item())
    model.train()
    return sum(hits) / len(hits)


def main():
    set_seed(31)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUM)
    model = build_encoder()
    lora = {s: [p for n, p in model.named_parameters() if f".{s}." in n and "lora_" in n]
            for s in ("question", "passage")}
    for p in lora["question"] + lora["passage"]:
        p.requires_grad_(True)

    train = DataLoader(Pairs(128, 1), batch_size=8, shuffle=True, drop_last=True)
    held_out = DataLoader(Pairs(32, 2), batch_size=8, drop_last=True)
    optimizer = torch.optim.AdamW(lora["question"] + lora["passage"], lr=5e-3, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optimizer, 4, EPOCHS * len(train) // ACCUM)
    model, optimizer, train, held_out, schedule = accelerator.prepare(
        model, optimizer, train, held_out, schedule)
    encoder = accelerator.unwrap_model(model)

    for epoch in range(EPOCHS):
        side = ("question", "passage")[epoch % 2]
        total = 0.0
        for batch in train:
            with accelerator.accumulate(model):
                q, p = both_sides(encoder, batch, side)
                loss = in_batch_loss(q, p)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(lora[side], 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            total += loss.detach().item()
        recall = recall_at_one(encoder, held_out, accelerator)
        print(f"epoch {epoch} side {side} loss {total / len(train):.4f} recall@1 {recall:.3f}")


if __name__ == "__main__":
    main()
