"""Fine-tuning of a small text classifier by gradual unfreezing.

stage 1 trains the head, stage 2 the last layer as well, stage 3 everything.
The backbone comes from a checkpoint; each stage begins with a fresh optimizer.
Sentences are sorted into a short and a long bucket, two micro-batches make
one update.
"""
import itertools
import math
import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = (8, 16)
PAD = 0
HPARAMS = dict(vocab=60, dim=16, heads=2, layers=2, classes=4, micro=8, accumulate=2)
STAGES = [
    dict(name="head", layers=0, updates=8, lr=5e-3),
    dict(name="last", layers=1, updates=8, lr=2e-3),
    dict(name="full", layers=2, updates=12, lr=1e-3),
]


class Classifier(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.embed = nn.Embedding(h["vocab"], h["dim"], padding_idx=PAD)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(h["dim"], h["heads"], 32, dropout=0.0, batch_first=True)
            for _ in range(h["layers"]))
        self.head = nn.Linear(h["dim"], h["classes"])

    def forward(self, ids):
        pad = ids.eq(PAD)
        x = self.embed(ids)
        bias = torch.zeros_like(pad, dtype=x.dtype).masked_fill(pad, -1e4)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=bias)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.head((x * keep).sum(1) / keep.sum(1).clamp(min=1.0))


def sentences(h, seed):
    rng = random.Random(seed)
    while True:
        label = rng.randrange(h["classes"])
        n = rng.randint(4, BUCKETS[-1])
        lo = 1 + label * 14
        yield [rng.randint(lo, lo + 13) if rng.random() < 0.7 else rng.randint(1, 56) for _ in range(n)], label


def bucketed(h, seed):
    """Batches of one bucket each, padded up to the bucket's length."""
    waiting = {b: [] for b in BUCKETS}
    for words, label in sentences(h, seed):
        width = next(b for b in BUCKETS if len(words) <= b)
        waiting[width].append((words + [PAD] * (width - len(words)), label))
        if len(waiting[width]) == h["micro"]:
            rows, labels = zip(*waiting[width])
            waiting[width] = []
            yield torch.tensor(rows), torch.tensor(labels)


def pretrained(h, path):
    torch.manual_seed(1)
    torch.save({"model": Classifier(h).state_dict()}, path)
    model = Classifier(h)
    model.load_state_dict(torch.load(path, map_location="cpu")["model"])
    return model


def unfreeze(model, layers):
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    for layer in model.layers[len(model.layers) - layers:]:
        layer.requires_grad_(True)
    if layers == len(model.layers):
        model.embed.requires_grad_(True)
    return [p for p in model.parameters() if p.requires_grad]


@torch.no_grad()
def accuracy(model, batches, device):
    model.eval()
    good = seen = 0
    for ids, label in batches:
        guess = model(ids.to(device)).argmax(-1)
        torch_xla.sync()
        good += (guess.cpu() == label).sum().item()
        seen += len(label)
    model.train()
    return good / seen


def smoothing(stage_no, done, of):
    return 0.1 * (0.5 + 0.5 * math.cos(math.pi * (done + 1) / (of + 1))) + 0.01 * (stage_no + 1)


def soft_targets(label, classes, eps):
    hot = F.one_hot(label, classes).float()
    return hot * (1 - eps) + eps / classes


def main():
    h = HPARAMS
    device = xm.xla_device()
    path = os.path.join(tempfile.mkdtemp(), "backbone.pt")
    model = pretrained(h, path).to(device)
    stream = bucketed(h, 21)
    held_out = list(itertools.islice(bucketed(h, 22), 6))
    meter = torch.zeros((), device=device)
    torch_xla.sync()

    for number, stage in enumerate(STAGES):
        params = unfreeze(model, stage["layers"])
        optimizer = torch.optim.AdamW(params, lr=stage["lr"])
        for p in params:
            p.grad = torch.zeros_like(p)
        for update in range(stage["updates"]):
            eps = smoothing(number, update, stage["updates"])
            for group in optimizer.param_groups:
                group["lr"] = stage["lr"] * (1 - 0.8 * update / stage["updates"])
            for _ in range(h["accumulate"]):
                ids, label = next(stream)
                target = soft_targets(label, h["classes"], eps).to(device)
                loss = F.cross_entropy(model(ids.to(device)), target) / h["accumulate"]
                loss.backward()
                meter += loss.detach()
                torch_xla.sync()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            torch_xla.sync()
        mean = meter.item() / stage["updates"]
        meter.zero_()
        print(f"stage {stage['name']}: {len(params)} tensors, loss {mean:.4f}, "
              f"accuracy {accuracy(model, held_out, device):.3f}")
    xm.save({"model": model.state_dict()}, path)


if __name__ == "__main__":
    main()
