"""Fine-tune a small BERT classifier on token-pattern 'reviews' with adapters whose ranks are found during training."""
import random

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from peft import AdaLoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

VOCAB = 120
MAX_LEN = 24
PAD, CLS, SEP = 0, 1, 2
TOTAL_STEPS = 44


class Reviews(Dataset):
    """Sentences whose label is which of two word groups is the more frequent; negations turn it round."""

    positive = range(10, 30)
    negative = range(30, 50)
    neutral = range(50, VOCAB)
    negation = 5

    def __init__(self, count, seed):
        rnd = random.Random(seed)
        self.rows = [self.sentence(rnd) for _ in range(count)]

    def sentence(self, rnd):
        label = rnd.randrange(2)
        length = rnd.randint(8, MAX_LEN - 2)
        words = []
        for _ in range(length):
            u = rnd.random()
            if u < 0.35:
                words.append(rnd.choice(self.positive if label else self.negative))
            elif u < 0.45:
                words.append(rnd.choice(self.negative if label else self.positive))
            else:
                words.append(rnd.choice(self.neutral))
        if rnd.random() < 0.1:
            words[0] = self.negation
            label = 1 - label
        return words, label

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids = torch.full((len(rows), MAX_LEN), PAD, dtype=torch.long)
    mask = torch.zeros(len(rows), MAX_LEN, dtype=torch.long)
    for i, (words, _) in enumerate(rows):
        seq = [CLS] + words + [SEP]
        ids[i, :len(seq)] = torch.tensor(seq)
        mask[i, :len(seq)] = 1
    labels = torch.tensor([label for _, label in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def build_model():
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=MAX_LEN, num_labels=2,
        attn_implementation="eager",
    )
    base = BertForSequenceClassification(config)
    adapters = AdaLoraConfig(
        task_type=TaskType.SEQ_CLS,
        init_r=8,
        target_r=3,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["query", "value"],
        tinit=6,
        tfinal=8,
        deltaT=1,
        beta1=0.85,
        beta2=0.85,
        orth_reg_weight=0.1,
        total_step=TOTAL_STEPS,
    )
    return get_peft_model(base, adapters)


def endless(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros((), dtype=torch.long, device=device)
    count = 0
    for batch in loader:
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        hits += (logits.argmax(-1) == batch["labels"]).sum()
        count += batch["labels"].numel()
        torch_xla.sync()
    model.train()
    return hits.item() / count


def main():
    random.seed(17)
    torch.manual_seed(17)
    device = torch_xla.device()
    train = DataLoader(Reviews(256, 1), batch_size=8, shuffle=True, drop_last=True, collate_fn=collate,
                       generator=torch.Generator().manual_seed(17))
    held_out = DataLoader(Reviews(32, 2), batch_size=8, collate_fn=collate)
    train, held_out = pl.MpDeviceLoader(train, device), pl.MpDeviceLoader(held_out, device)

    model = build_model().to(device)
    model.print_trainable_parameters()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=4e-3, weight_decay=0.01)
    sched = get_linear_schedule_with_warmup(opt, 4, TOTAL_STEPS + 1)

    model.train()
    for step, batch in zip(range(1, TOTAL_STEPS + 1), endless(train)):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        xm.optimizer_step(opt, barrier=True)
        sched.step()
        model.base_model.update_and_allocate(step)
        opt.zero_grad()
        if step % 11 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} accuracy {evaluate(model, held_out, device):.3f}")


if __name__ == "__main__":
    main()
