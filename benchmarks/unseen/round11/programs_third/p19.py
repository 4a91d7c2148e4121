"""One frozen encoder, one LoRA adapter a customer: train them customer by customer, then in turns."""
from collections import namedtuple
from itertools import cycle, islice

import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

Customer = namedtuple("Customer", "name rank alpha batch length targets")

CUSTOMERS = [
    Customer("tickets", 4, 8, 16, 16, ["query", "value"]),
    Customer("contracts", 8, 16, 8, 32, ["query", "key", "value"]),
]
VOCAB = 90


def backbone():
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=40, num_labels=3,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
    return BertForSequenceClassification(config)


def lora(c):
    return LoraConfig(r=c.rank, lora_alpha=c.alpha, lora_dropout=0.0, target_modules=c.targets,
                      modules_to_save=None, task_type=None)


def documents(c, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(3, VOCAB, (c.batch, c.length), generator=g)
        yield {"input_ids": ids, "labels": ids.sum(1) % 3}


class AdapterTrainer:
    def __init__(self, customers, device):
        self.device = device
        self.customers = {c.name: c for c in customers}
        first, *rest = customers
        model = get_peft_model(backbone(), lora(first), adapter_name=first.name)
        for c in rest:
            model.add_adapter(c.name, lora(c))
        self.model = model.to(device)
        self.streams = {c.name: documents(c, seed=i) for i, c in enumerate(customers)}
        self.optims = {}
        for c in customers:
            params = [p for n, p in model.named_parameters() if f".{c.name}." in n]
            self.optims[c.name] = torch.optim.AdamW(params, lr=5e-3)
        torch_xla.sync()

    def to_device(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def step(self, name):
        self.model.set_adapter(name)
        self.model.train()
        loss = self.model(**self.to_device(next(self.streams[name]))).loss
        loss.backward()
        self.optims[name].step()
        self.optims[name].zero_grad()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, name, batches=2):
        self.model.set_adapter(name)
        self.model.eval()
        hits = []
        for batch in islice(self.streams[name], batches):
            batch = self.to_device(batch)
            logits = self.model(input_ids=batch["input_ids"]).logits
            right = (logits.argmax(-1) == batch["labels"]).float().mean()
            torch_xla.sync()
            hits.append(right.item())
        return sum(hits) / len(hits)

    def warm_start(self, steps):
        for name in self.customers:
            for s in range(steps):
                loss = self.step(name)
            print(f"{name}: loss {loss.item():.4f} accuracy {self.evaluate(name):.3f}")

    def round_robin(self, steps):
        for s, name in enumerate(islice(cycle(self.customers), steps), start=1):
            loss = self.step(name)
            if s % 5 == 0:
                print(f"turn {s} {name} loss {loss.item():.4f}")
        for name in self.customers:
            print(f"{name}: final accuracy {self.evaluate(name):.3f}")


if __name__ == "__main__":
    torch.manual_seed(19)
    trainer = AdapterTrainer(CUSTOMERS, torch_xla.device())
    trainer.warm_start(steps=8)
    trainer.round_robin(steps=16)
