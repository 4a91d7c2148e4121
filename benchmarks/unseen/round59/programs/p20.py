"""Continual text classification: one LoRA adapter per task on a shared tiny encoder, rehearsal over seen tasks."""
import random

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

VOCAB, SEQ, BATCH = 80, 16, 8
TASKS = {"topic": (2, 4), "tone": (4, 3), "intent": (8, 4)}      # name: (rank, classes)
LABELS, STEPS = 4, 48


class TaskStream:
    """Each task hides its label in the counts of its own marker tokens."""

    def __init__(self, name, index, classes):
        self.gen = torch.Generator().manual_seed(100 + index)
        self.first, self.classes = 4 + 8 * index, classes

    def batch(self):
        y = torch.randint(0, self.classes, (BATCH,), generator=self.gen)
        ids = torch.randint(40, VOCAB, (BATCH, SEQ), generator=self.gen)
        lengths = torch.randint(9, SEQ + 1, (BATCH,), generator=self.gen)
        where = torch.randint(1, 8, (BATCH, 3), generator=self.gen)
        ids.scatter_(1, where, (self.first + y).unsqueeze(1).expand(-1, 3))
        ids[:, 0] = 2
        mask = (torch.arange(SEQ) < lengths.unsqueeze(1)).long()
        return ids * mask, mask, y


def build_model():
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=SEQ, num_labels=LABELS,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    base = BertForSequenceClassification(config)
    model = None
    for name, (rank, _) in TASKS.items():
        lora = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, task_type="SEQ_CLS",
                          target_modules=["query", "value"], modules_to_save=["classifier"])
        if model is None:
            model = get_peft_model(base, lora, adapter_name=name)
        else:
            model.add_adapter(name, lora)
    return model


def schedule(rng):
    """A block of steps per task, then a rehearsal phase that visits all tasks at random."""
    names = list(TASKS)
    plan = [n for n in names for _ in range(6)]
    plan += [rng.choice(names) for _ in range(STEPS - len(plan))]
    return plan


def class_mask(classes, device):
    m = torch.zeros(LABELS)
    m[classes:] = -1e4
    return m.to(device)


@torch.no_grad()
def score(model, ids, mask, labels, bias):
    pred = (model(input_ids=ids, attention_mask=mask).logits + bias).argmax(-1)
    return (pred == labels).float().mean().item()


def main():
    torch.manual_seed(20)
    rng = random.Random(20)
    device = xm.xla_device()
    model = build_model().to(device)
    model.train()

    streams = {n: TaskStream(n, i, c) for i, (n, (_, c)) in enumerate(TASKS.items())}
    biases = {n: class_mask(c, device) for n, (_, c) in TASKS.items()}
    exams = {n: tuple(t.to(device) for t in s.batch()) for n, s in streams.items()}
    optimizers = {}
    for name in TASKS:
        model.set_adapter(name)
        own = [p for k, p in model.named_parameters() if f".{name}." in k]
        optimizers[name] = torch.optim.SGD(own, lr=0.1, momentum=0.9, nesterov=True)
    drift = {n: torch.zeros((), device=device) for n in TASKS}
    xm.mark_step()

    for step, name in enumerate(schedule(rng)):
        model.set_adapter(name)
        opt = optimizers[name]
        for group in opt.param_groups:
            group["lr"] = 0.1 * (1.0 - step / (2 * STEPS))

        ids, mask, y = (t.to(device) for t in streams[name].batch())
        with torch.no_grad(), model.disable_adapter():
            anchor = model(input_ids=ids, attention_mask=mask).logits
        logits = model(input_ids=ids, attention_mask=mask).logits
        task_loss = F.cross_entropy(logits + biases[name], y)
        reg = F.kl_div(logits.log_softmax(-1), anchor.softmax(-1), reduction="batchmean")
        loss = task_loss + 0.05 * (1.0 + 0.02 * step) * reg

        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        drift[name] = 0.9 * drift[name] + 0.1 * reg.detach()
        xm.mark_step()

        if step % 16 == 15:
            accs = []
            model.eval()
            for task, held_out in exams.items():
                model.set_adapter(task)
                accs.append(f"{task} {score(model, *held_out, biases[task]):.2f}")
            model.train()
            xm.master_print(f"step {step + 1:2d}  loss {loss.item():.3f}  {'  '.join(accs)}  drift {drift[name].item():.3f}")


if __name__ == "__main__":
    main()
