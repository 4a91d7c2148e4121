"""Adapting a small encoder to classify maintenance tickets, with AdaLoRA so that
the rank goes to the layers that need it."""
from dataclasses import dataclass, field

import torch
import torch_xla
from peft import AdaLoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

TEAMS = ["electrical", "hydraulics", "software"]


@dataclass
class Run:
    vocab: int = 90
    max_len: int = 16
    batch: int = 8
    steps: int = 48
    lr: float = 5e-3
    warmup: int = 6
    hold: int = 12
    rank: tuple = (8, 3)
    targets: list = field(default_factory=lambda: ["query", "key", "value"])
    log_every: int = 12


class Tickets(Dataset):
    """Token ids; each team has favourite words."""

    def __init__(self, run, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, len(TEAMS), (n,), generator=g)
        third = (run.vocab - 3) // len(TEAMS)
        own = torch.randint(0, third, (n, run.max_len), generator=g) + 3 + self.label[:, None] * third
        anyword = torch.randint(3, run.vocab, (n, run.max_len), generator=g)
        pick = torch.rand(n, run.max_len, generator=g) < 0.35
        self.ids = torch.where(pick, own, anyword)
        self.ids[:, 0] = 1

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.label[i]}


def build_model(run):
    config = BertConfig(
        vocab_size=run.vocab, hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=run.max_len, num_labels=len(TEAMS),
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    peft_config = AdaLoraConfig(
        task_type=TaskType.SEQ_CLS, target_modules=run.targets,
        init_r=run.rank[0], target_r=run.rank[1], lora_alpha=16, lora_dropout=0.0,
        tinit=run.warmup, tfinal=run.hold, total_step=run.steps)
    return get_peft_model(BertForSequenceClassification(config), peft_config)


class Trainer:
    def __init__(self, run, device):
        self.run, self.device = run, device
        self.model = build_model(run).to(device)
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        self.opt = torch.optim.SGD(trainable, lr=run.lr, momentum=0.9)
        self.sched = get_linear_schedule_with_warmup(self.opt, run.warmup, run.steps)
        self.loss_sum = torch.zeros((), device=device)
        self.count = 0

    def step(self, batch, global_step):
        batch = {k: v.to(self.device) for k, v in batch.items()}
        loss = self.model(**batch).loss
        loss.backward()
        self.opt.step()
        self.sched.step()
        self.model.base_model.update_and_allocate(global_step)
        self.opt.zero_grad()
        self.loss_sum += loss.detach()
        self.count += 1
        torch_xla.sync()

    def report(self, global_step):
        mean = self.loss_sum.item() / self.count
        self.loss_sum, self.count = torch.zeros((), device=self.device), 0
        torch_xla.sync()
        ranks = [int((p.detach().cpu() != 0).sum()) for n, p in self.model.named_parameters() if "lora_E" in n]
        print(f"step {global_step:3d} loss {mean:.4f} ranks {ranks}")

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = []
        for batch in loader:
            labels = batch.pop("labels")
            batch = {k: v.to(self.device) for k, v in batch.items()}
            hits.append(self.model(**batch).logits.argmax(-1).cpu() == labels)
        self.model.train()
        return torch.cat(hits).float().mean().item()


def main():
    run = Run()
    torch.manual_seed(6)
    trainer = Trainer(run, torch_xla.device())
    train = DataLoader(Tickets(run, 448, 0), run.batch, shuffle=True, drop_last=True)
    test = DataLoader(Tickets(run, 64, 1), 16)
    trainer.model.train()
    torch_xla.sync()
    for global_step, batch in enumerate(train, 1):
        trainer.step(batch, global_step)
        if global_step % run.log_every == 0:
            trainer.report(global_step)
        if global_step == run.steps:
            break
    print(f"test accuracy {trainer.accuracy(test):.3f}")


if __name__ == "__main__":
    main()
