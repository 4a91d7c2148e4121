"""Support-ticket routing: a small BERT tuned with AdaLoRA (peft)."""
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from peft import AdaLoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

VOCAB = 200
LENGTH = 24
QUEUES = 4
BATCH = 8
EPOCHS = 2
PER_EPOCH = 10
TOTAL = EPOCHS * PER_EPOCH


class Tickets(Dataset):
    """Token ids with [CLS], a few telling words for each queue, filler, and padding to LENGTH."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, QUEUES, (n,), generator=g)
        self.ids = torch.randint(60, VOCAB, (n, LENGTH), generator=g)
        telling = torch.rand(n, LENGTH, generator=g) < 0.3
        words = 5 + self.label[:, None] * 10 + torch.randint(0, 10, (n, LENGTH), generator=g)
        self.ids = torch.where(telling, words, self.ids)
        self.ids[:, 0] = 2
        used = torch.randint(10, LENGTH + 1, (n, 1), generator=g)
        self.mask = (torch.arange(LENGTH)[None] < used).long()
        self.ids = self.ids * self.mask

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": self.mask[i], "labels": self.label[i]}


def build_model():
    config = BertConfig(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=16, max_position_embeddings=LENGTH, num_labels=QUEUES)
    base = BertForSequenceClassification(config)
    adapter = AdaLoraConfig(
        task_type=TaskType.SEQ_CLS,
        init_r=8,
        target_r=2,
        tinit=3,
        tfinal=5,
        deltaT=1,
        beta1=0.85,
        beta2=0.85,
        lora_alpha=16,
        orth_reg_weight=0.1,
        total_step=TOTAL,
        target_modules=["query", "value"],
    )
    return get_peft_model(base, adapter)


def split_params(model, decay):
    with_decay, without = [], []
    for name, p in model.named_parameters():
        if p.requires_grad:
            (without if p.ndim < 2 or "lora_E" in name else with_decay).append(p)
    return [{"params": with_decay, "weight_decay": decay}, {"params": without, "weight_decay": 0.0}]


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    n = 0
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        right += (logits.argmax(-1) == batch["labels"]).sum()
        n += len(batch["labels"])
        xm.mark_step()
    model.train()
    return right.item() / n


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    model = build_model().to(device)
    model.print_trainable_parameters()
    opt = torch.optim.AdamW(split_params(model, 0.01), lr=8e-3)
    sched = get_linear_schedule_with_warmup(opt, 4, TOTAL)
    train = DataLoader(Tickets(BATCH * PER_EPOCH, 1), batch_size=BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(Tickets(BATCH * 4, 2), batch_size=BATCH)

    model.train()
    step = 0
    for epoch in range(EPOCHS):
        running = torch.zeros((), device=device)
        for batch in train:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            opt.step()
            model.base_model.update_and_allocate(step)
            opt.zero_grad()
            sched.step()
            running += loss.detach()
            step += 1
            xm.mark_step()
        mean = running.item() / PER_EPOCH
        print(f"epoch {epoch} loss {mean:.4f} accuracy {accuracy(model, valid, device):.3f}", flush=True)


if __name__ == "__main__":
    main()
