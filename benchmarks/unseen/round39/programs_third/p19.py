"""Distil a frozen sentence-embedding teacher into a small bag-of-tokens student.

Quality is tracked with torchmetrics over one long pass through the corpus.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.regression import CosineSimilarity, MeanSquaredError
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 200
SEQ = 16
DIM = 32
BATCH = 24
STEPS = 48
LOG_EVERY = 4


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        layer = nn.TransformerEncoderLayer(DIM, 4, 2 * DIM, dropout=0.0,
                                           batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, ids, mask):
        h = self.enc(self.tok(ids), src_key_padding_mask=~mask)
        w = mask.unsqueeze(-1).to(h.dtype)
        return F.normalize((h * w).sum(1) / w.sum(1), dim=-1)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.gate = nn.Linear(DIM, 1)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(),
                                 nn.Linear(2 * DIM, DIM))

    def forward(self, ids, mask):
        h = self.tok(ids)
        score = self.gate(h).squeeze(-1).masked_fill(~mask, -1e4)
        pooled = (score.softmax(-1).unsqueeze(-1) * h).sum(1)
        return F.normalize(self.mlp(pooled), dim=-1)


class Corpus:
    def __init__(self, teacher, seed):
        self.teacher = teacher.eval()
        self.generator = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def batches(self, n):
        for _ in range(n):
            ids = torch.randint(1, VOCAB, (BATCH, SEQ), generator=self.generator)
            lengths = torch.randint(4, SEQ + 1, (BATCH,), generator=self.generator)
            mask = torch.arange(SEQ)[None] < lengths[:, None]
            yield ids * mask, mask, self.teacher(ids * mask, mask)


class Tracker:
    """Everything that goes to the log, kept on the training device."""

    def __init__(self, device):
        self.loss = MeanMetric(nan_strategy="disable").to(device)
        self.quality = MetricCollection({
            "cosine": CosineSimilarity(reduction="mean"),
            "mse": MeanSquaredError(),
        }).to(device)

    @torch.no_grad()
    def update(self, loss, pred, target):
        self.loss.update(loss.detach())
        self.quality.update(pred.detach(), target)

    @torch.no_grad()
    def report(self):
        values = {"loss": self.loss.compute(), **self.quality.compute()}
        return {k: v.item() for k, v in values.items()}


def contrastive(pred, target, temperature=0.1):
    logits = pred @ target.t() / temperature
    labels = torch.arange(pred.shape[0], device=pred.device)
    return F.cross_entropy(logits, labels)


def main():
    torch.manual_seed(19)
    device = xm.xla_device()

    corpus = Corpus(Teacher(), seed=19)
    student = Student().to(device)
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(
        optimizer, start_factor=1.0, end_factor=0.1, total_iters=STEPS)
    tracker = Tracker(device)
    torch_xla.sync()

    student.train()
    for step, (ids, mask, target) in enumerate(corpus.batches(STEPS), start=1):
        ids, mask, target = ids.to(device), mask.to(device), target.to(device)

        optimizer.zero_grad(set_to_none=True)
        pred = student(ids, mask)
        loss = (1 - (pred * target).sum(-1)).mean() + 0.1 * contrastive(pred, target)
        loss.backward()
        optimizer.step()
        scheduler.step()
        tracker.update(loss, pred, target)
        torch_xla.sync()

        if step % LOG_EVERY == 0:
            row = tracker.report()
            print(f"step {step:3d} " + " ".join(f"{k} {v:.4f}" for k, v in row.items()))


if __name__ == "__main__":
    main()
