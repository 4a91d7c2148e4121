import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.optim import AdamW
from transformers import (DistilBertConfig, DistilBertForSequenceClassification,
                          get_linear_schedule_with_warmup)

SEED = 42
BSZ = 8
MAX_LEN = 12
TOTAL_STEPS = 6

torch.manual_seed(SEED)


def build_model():
    config = DistilBertConfig(
        vocab_size=60,
        dim=16,
        hidden_dim=32,
        n_layers=1,
        n_heads=2,
        max_position_embeddings=16,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
        num_labels=3,
        attn_implementation="eager",
    )
    model = DistilBertForSequenceClassification(config)
    model.distilbert.embeddings.requires_grad_(False)
    return model


def fake_encodings(n):
    """Sentences of random length; the label is the most common token class."""
    ids = torch.zeros(n, MAX_LEN, dtype=torch.long)
    mask = torch.zeros(n, MAX_LEN, dtype=torch.long)
    labels = torch.zeros(n, dtype=torch.long)
    for i in range(n):
        length = int(torch.randint(5, MAX_LEN + 1, (1,)))
        label = int(torch.randint(0, 3, (1,)))
        toks = torch.randint(5 + 18 * label, 5 + 18 * (label + 1), (length,))
        toks[0] = 1
        ids[i, :length] = toks
        mask[i, :length] = 1
        labels[i] = label
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def param_groups(model, wd):
    skip = ("bias", "LayerNorm.weight", "layer_norm.weight")
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [p for n, p in named if not any(s in n for s in skip)],
         "weight_decay": wd},
        {"params": [p for n, p in named if any(s in n for s in skip)],
         "weight_decay": 0.0},
    ]


def train():
    device = torch_xla.device()
    model = build_model().to(device)
    model.train()
    optimizer = AdamW(param_groups(model, 0.01), lr=5e-4, betas=(0.9, 0.98), eps=1e-6)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, TOTAL_STEPS + 2)
    scheduler.step()
    xm.mark_step()

    running = torch.zeros((), device=device)
    for step in range(TOTAL_STEPS):
        batch = {k: v.to(device) for k, v in fake_encodings(BSZ).items()}
        optimizer.zero_grad()
        out = model(**batch)
        out.loss.backward()
        optimizer.step()
        scheduler.step()
        running += out.loss.detach()
        xm.mark_step()
        if (step + 1) % 3 == 0:
            xm.master_print(f"[{step + 1}/{TOTAL_STEPS}] loss={running.item() / 3:.4f}")
            running.zero_()


if __name__ == "__main__":
    train()
