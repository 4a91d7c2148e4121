"""Intent classification with a GRU-free text CNN; batches are grouped into three length buckets."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = (8, 16, 32)
VOCAB, CLASSES, BATCH = 120, 6, 16
device = torch_xla.device()


def make_corpus(n, seed):
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        label = rng.randrange(CLASSES)
        length = rng.randint(3, 32)
        toks = [rng.randint(10, VOCAB - 1) for _ in range(length)]
        toks[rng.randrange(length)] = 1 + label
        out.append((toks, label))
    return out


def bucket_of(length):
    return next(b for b in BUCKETS if length <= b)


def bucket_batches(corpus, rng=None):
    groups = defaultdict(list)
    for toks, label in corpus:
        groups[bucket_of(len(toks))].append((toks, label))
    batches = []
    for width, items in groups.items():
        if rng is not None:
            rng.shuffle(items)
            items = items[: len(items) // BATCH * BATCH]
        for i in range(0, len(items), BATCH):
            chunk = items[i:i + BATCH]
            ids = torch.zeros(BATCH, width, dtype=torch.long)
            labels = torch.full((BATCH,), -100)
            for r, (toks, label) in enumerate(chunk):
                ids[r, :len(toks)] = torch.tensor(toks)
                labels[r] = label
            batches.append((ids, labels))
    if rng is not None:
        rng.shuffle(batches)
    return batches


class TextCNN(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(d, d, k, padding=k // 2) for k in (3, 5))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(2 * d, CLASSES)

    def forward(self, ids):
        pad = (ids == 0).unsqueeze(1)
        x = self.emb(ids).transpose(1, 2)
        feats = [F.relu(c(x)).masked_fill(pad, 0.0).amax(dim=2) for c in self.convs]
        return self.head(self.drop(torch.cat(feats, dim=1)))


def train_epoch(model, opt, batches):
    model.train()
    running = torch.zeros(1).to(device)
    for ids, labels in batches:
        ids, labels = ids.to(device), labels.to(device)
        opt.zero_grad()
        loss = F.cross_entropy(model(ids), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt)
        running += loss.detach()
        xm.mark_step()
    return running.item() / len(batches)


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    counts = torch.zeros(2).to(device)
    for ids, labels in batches:
        ids, labels = ids.to(device), labels.to(device)
        pred = model(ids).argmax(dim=1)
        counts += torch.stack([(pred == labels).sum(), (labels >= 0).sum()])
        xm.mark_step()
    hits, seen = counts.tolist()
    return hits / seen


def main(epochs=6):
    torch.manual_seed(5)
    rng = random.Random(5)
    train_set, dev_set = make_corpus(240, 1), make_corpus(90, 2)
    dev_batches = bucket_batches(dev_set)
    model = TextCNN().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        loss = train_epoch(model, opt, bucket_batches(train_set, rng))
        sched.step()
        acc = evaluate(model, dev_batches)
        print(f"epoch {epoch}: loss {loss:.3f} dev acc {acc:.3f} lr {sched.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
