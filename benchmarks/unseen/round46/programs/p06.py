"""Promoter classification from DNA reads of very different length."""
import os
import random
from typing import Dict, Iterator, List, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ALPHABET = "ACGTN"
PAD = len(ALPHABET)
BUCKETS: Dict[int, int] = {48: 16, 96: 8, 160: 4}   # length -> batch size
EVAL_LEN = 160
EPOCHS = int(os.environ.get("EPOCHS", 4))


def synth_read(rng: random.Random) -> Tuple[List[int], int]:
    n = int(min(160, max(20, rng.lognormvariate(4.1, 0.55))))
    seq = [rng.randrange(4) for _ in range(n)]
    label = rng.randrange(2)
    if label:
        at = rng.randrange(n - 8)
        seq[at:at + 6] = [3, 0, 3, 0, 0, 0]     # TATAAA
    if rng.random() < 0.05:
        seq[rng.randrange(n)] = 4
    return seq, label


def bucket_of(n: int) -> int:
    for edge in BUCKETS:
        if n <= edge:
            return edge
    raise ValueError(n)


def pad_to(seqs: List[List[int]], length: int) -> torch.Tensor:
    out = torch.full((len(seqs), length), PAD, dtype=torch.long)
    for i, s in enumerate(seqs):
        out[i, :len(s)] = torch.tensor(s)
    return out


class BucketLoader:
    def __init__(self, reads, seed: int):
        self.rng = random.Random(seed)
        self.by_len: Dict[int, list] = {b: [] for b in BUCKETS}
        for seq, label in reads:
            self.by_len[bucket_of(len(seq))].append((seq, label))

    def __iter__(self) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
        plan = []
        for length, items in self.by_len.items():
            self.rng.shuffle(items)
            bs = BUCKETS[length]
            for s in range(0, len(items) - bs + 1, bs):
                plan.append((length, items[s:s + bs]))
        self.rng.shuffle(plan)
        for length, chunk in plan:
            yield pad_to([c[0] for c in chunk], length), torch.tensor([c[1] for c in chunk])


class ReadNet(nn.Module):
    def __init__(self, dim=24, depth=3):
        super().__init__()
        self.emb = nn.Embedding(len(ALPHABET) + 1, dim, padding_idx=PAD)
        self.convs = nn.ModuleList(
            nn.Conv1d(dim, dim, 5, padding=2 * 2 ** i, dilation=2 ** i) for i in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)
        self.head = nn.Linear(dim, 2)

    def forward(self, tokens):
        valid = (tokens != PAD).unsqueeze(-1)
        h = self.emb(tokens)
        for conv, norm in zip(self.convs, self.norms):
            z = conv(norm(h).transpose(1, 2)).transpose(1, 2)
            h = h + F.gelu(z) * valid
        att = self.score(h).masked_fill(~valid, -1e4).softmax(dim=1)
        return self.head((att * h).sum(dim=1))


@torch.no_grad()
def evaluate(model, reads, device, bs=16) -> float:
    model.eval()
    correct = torch.zeros(1).to(device)
    for s in range(0, len(reads), bs):
        chunk = reads[s:s + bs]
        n = len(chunk)
        seqs = [c[0] for c in chunk] + [[0]] * (bs - n)
        labels = torch.tensor([c[1] for c in chunk] + [-1] * (bs - n)).to(device)
        logits = model(pad_to(seqs, EVAL_LEN).to(device))
        correct += (logits.argmax(dim=-1) == labels).sum()
        xm.mark_step()
    model.train()
    return correct.item() / len(reads)


def main():
    torch.manual_seed(8)
    rng = random.Random(8)
    reads = [synth_read(rng) for _ in range(170)]
    train, held = reads[:130], reads[130:]
    loader = BucketLoader(train, seed=8)
    device = xm.xla_device()

    model = ReadNet().to(device)
    decay = [p for n, p in model.named_parameters() if p.ndim > 1]
    plain = [p for n, p in model.named_parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05},
                             {"params": plain, "weight_decay": 0.0}], lr=2e-3)
    warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))

    step = 0
    for epoch in range(EPOCHS):
        running = torch.zeros(1).to(device)
        for tokens, labels in loader:
            tokens, labels = tokens.to(device), labels.to(device)
            loss = F.cross_entropy(model(tokens), labels, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            warmup.step()
            running += loss.detach()
            xm.mark_step()
            step += 1
        acc = evaluate(model, held, device)
        print(f"epoch {epoch}: {step} steps, loss sum {running.item():.3f}, acc {acc:.3f}")


if __name__ == "__main__":
    main()
