"""LoRA fine-tuning of a DistilBERT-style encoder for routing support tickets."""
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, TaskType, get_peft_model
from transformers import DistilBertConfig, DistilBertForSequenceClassification

QUEUES = ["billing", "delivery", "returns", "account", "other"]


def build():
    cfg = DistilBertConfig(
        vocab_size=120, max_position_embeddings=24, dim=16, hidden_dim=32, n_layers=1, n_heads=2,
        num_labels=len(QUEUES), dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.1,
        attn_implementation="eager",
    )
    base = DistilBertForSequenceClassification(cfg)
    lora = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_lin", "v_lin"],
        task_type=TaskType.SEQ_CLS,
    )
    return get_peft_model(base, lora)


def tickets(n, batch, length, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        queue = rng.integers(0, len(QUEUES), batch)
        ids = rng.integers(10, 120, (batch, length))
        ids[:, 0] = 1
        ids[:, 1] = 2 + queue
        lens = rng.integers(6, length + 1, batch)
        mask = (np.arange(length)[None] < lens[:, None]).astype(np.int64)
        yield {
            "input_ids": torch.tensor(ids * mask),
            "attention_mask": torch.tensor(mask),
            "labels": torch.tensor(queue),
        }


def lora_plus_groups(model, lr, ratio=8.0):
    """LoRA+: the B matrices learn faster than the A matrices."""
    a, b = [], []
    for name, p in model.named_parameters():
        if "lora_A" in name:
            a.append(p)
        elif "lora_B" in name:
            b.append(p)
    return [{"params": a, "lr": lr}, {"params": b, "lr": lr * ratio}]


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build().to(device).train()
    trainable = [p for p in model.parameters() if p.requires_grad]
    print("trainable tensors:", len(trainable))
    opt = torch.optim.AdamW(lora_plus_groups(model, 5e-4), weight_decay=0.0)
    xm.mark_step()
    for step, batch in enumerate(tickets(steps, 8, 16, seed=11)):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        opt.step()
        opt.zero_grad()
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
