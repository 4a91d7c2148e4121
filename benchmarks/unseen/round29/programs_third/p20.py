"""One frozen encoder, one LoRA adapter per customer; adapters are trained in turns."""
import torch
import torch_xla
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

CUSTOMERS = ["acme", "globex"]
ROUNDS = 6
STEPS_PER_TURN = 8
BATCH, LENGTH, VOCAB = 8, 16, 64


class TicketStream:
    """Tickets mention marker tokens; every customer has an own idea of what is urgent."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.markers = torch.randperm(VOCAB - 4, generator=self.gen)[:12] + 4

    def batch(self):
        ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=self.gen)
        ids[:, 0] = 2
        hits = torch.isin(ids, self.markers).sum(1)
        return ids, (hits > 2).long()


def build(device):
    cfg = BertConfig(
        vocab_size=VOCAB,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        num_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    base = BertForSequenceClassification(cfg)

    def lora(rank):
        return LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            target_modules=["query", "value"],
            modules_to_save=["classifier"],
            task_type="SEQ_CLS",
        )

    model = get_peft_model(base, lora(4), adapter_name=CUSTOMERS[0])
    for name in CUSTOMERS[1:]:
        model.add_adapter(name, lora(8))
    return model.to(device)


def adapter_parameters(model, name):
    return [p for n, p in model.named_parameters() if f".{name}." in n]


def train_turn(model, name, opt, stream, device):
    model.set_adapter(name)
    model.train()
    for _ in range(STEPS_PER_TURN):
        ids, labels = stream.batch()
        loss = model(input_ids=ids.to(device), labels=labels.to(device)).loss
        loss.backward()
        opt.step()
        opt.zero_grad()
        torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def evaluate(model, name, batches, device):
    model.set_adapter(name)
    model.eval()
    good = torch.zeros(1, dtype=torch.long, device=device)
    for ids, labels in batches:
        pred = model(input_ids=ids.to(device)).logits.argmax(-1)
        good += (pred == labels.to(device)).sum()
        torch_xla.sync()
    return good.item() / (len(batches) * BATCH)


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    model = build(device)
    streams = {c: TicketStream(i) for i, c in enumerate(CUSTOMERS)}
    held_out = {c: [streams[c].batch() for _ in range(3)] for c in CUSTOMERS}
    opts = {c: torch.optim.AdamW(adapter_parameters(model, c), lr=5e-3) for c in CUSTOMERS}
    torch_xla.sync()

    for rnd in range(ROUNDS):
        for c in CUSTOMERS:
            loss = train_turn(model, c, opts[c], streams[c], device)
            acc = evaluate(model, c, held_out[c], device)
            print(f"round {rnd} {c:8s} loss {loss.item():.3f} acc {acc:.2f}")


if __name__ == "__main__":
    main()
