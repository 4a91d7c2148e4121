"""Toxicity-style binary text classification: accelerate, a small BERT, torchmetrics."""
import torch
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC, BinaryF1Score
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

VOCAB, WIDTH, BATCH, EPOCHS, REPORT_EVERY = 90, 24, 16, 3, 3


class Comments(Dataset):
    """Token ids padded to a fixed width; label depends on a few marker tokens."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(4, VOCAB, (n, WIDTH), generator=g)
        length = torch.randint(6, WIDTH + 1, (n, 1), generator=g)
        self.mask = (torch.arange(WIDTH)[None] < length).long()
        self.ids = self.ids * self.mask
        score = ((self.ids > 4) & (self.ids < 16)).sum(1) + torch.randint(0, 2, (n,), generator=g)
        self.labels = (score >= 2).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": self.mask[i], "labels": self.labels[i]}


def build_model():
    return BertForSequenceClassification(BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=WIDTH, num_labels=2,
        hidden_dropout_prob=0.1, attn_implementation="eager"))


def build_metrics(device):
    train = BinaryAUROC(validate_args=False).to(device)
    valid = MetricCollection({
        "acc": BinaryAccuracy(validate_args=False),
        "f1": BinaryF1Score(validate_args=False),
    }, compute_groups=False).to(device)
    return train, valid


class Run:
    def __init__(self):
        self.accelerator = Accelerator()
        model = build_model()
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.device = self.accelerator.device
        self.train_loader = DataLoader(Comments(240, 1), batch_size=BATCH, shuffle=True, drop_last=True)
        self.valid_loader = DataLoader(Comments(64, 2), batch_size=BATCH)
        self.model, self.opt = self.accelerator.prepare(model, opt)
        total = EPOCHS * len(self.train_loader)
        self.sched = get_linear_schedule_with_warmup(self.opt, 5, total + 1)
        self.train_metric, self.valid_metrics = build_metrics(self.device)
        torch_xla.sync()

    def put(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def train_epoch(self, epoch):
        self.model.train()
        for i, batch in enumerate(self.train_loader):
            b = self.put(batch)
            out = self.model(**b)
            self.accelerator.backward(out.loss)
            self.opt.step()
            self.sched.step()
            self.opt.zero_grad()
            self.train_metric.update(out.logits.detach().softmax(-1)[:, 1], b["labels"])
            torch_xla.sync()
            if (i + 1) % REPORT_EVERY == 0:
                self.report(epoch, i + 1, out.loss.detach())
        self.train_metric.reset()

    def report(self, epoch, i, loss):
        score = self.train_metric.compute()
        torch_xla.sync()
        self.accelerator.print(f"epoch {epoch} batch {i} loss {loss.item():.4f} auroc {score.item():.3f}")

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        for batch in self.valid_loader:
            b = self.put(batch)
            logits = self.model(input_ids=b["input_ids"], attention_mask=b["attention_mask"]).logits
            self.valid_metrics.update(logits.softmax(-1)[:, 1], b["labels"])
            torch_xla.sync()
        values = {k: v.item() for k, v in self.valid_metrics.compute().items()}
        self.valid_metrics.reset()
        torch_xla.sync()
        return values


def main():
    set_seed(0)
    run = Run()
    for epoch in range(EPOCHS):
        run.train_epoch(epoch)
        values = run.evaluate()
        print(f"epoch {epoch} valid", {k: round(v, 3) for k, v in values.items()})


if __name__ == "__main__":
    main()
