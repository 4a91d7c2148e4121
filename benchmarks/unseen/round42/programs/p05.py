"""Sound event tagging on clips of very different duration, batched by length."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

EDGES = (24, 40, 64, 96)
MELS = 20
CLASSES = 6
BATCH = 8


def make_clips(count, seed):
    gen = torch.Generator().manual_seed(seed)
    rng = random.Random(seed)
    prototypes = torch.randn(CLASSES, MELS, generator=torch.Generator().manual_seed(1))
    clips = []
    for _ in range(count):
        frames = min(96, max(8, int(rng.lognormvariate(3.6, 0.5))))
        label = rng.randrange(CLASSES)
        mel = 0.8 * torch.randn(frames, MELS, generator=gen)
        onset = rng.randrange(frames // 2)
        mel[onset:onset + frames // 2] += prototypes[label]
        clips.append((mel, label))
    return clips


class BucketLoader:
    """Groups clips by the smallest edge that holds them; only full batches come out."""

    def __init__(self, clips, edges, batch_size, seed):
        self.clips, self.edges, self.batch_size = clips, edges, batch_size
        self.rng = random.Random(seed)
        self.buckets = {e: [] for e in edges}
        for i, (mel, _) in enumerate(clips):
            edge = next(e for e in edges if mel.size(0) <= e)
            self.buckets[edge].append(i)

    def collate(self, ids, edge):
        mel = torch.zeros(len(ids), edge, MELS)
        mask = torch.zeros(len(ids), edge)
        label = torch.zeros(len(ids), dtype=torch.long)
        for row, i in enumerate(ids):
            x, y = self.clips[i]
            mel[row, :x.size(0)] = x
            mask[row, :x.size(0)] = 1
            label[row] = y
        return mel, mask, label

    def __iter__(self):
        plan = []
        for edge, ids in self.buckets.items():
            ids = ids[:]
            self.rng.shuffle(ids)
            for s in range(0, len(ids) - self.batch_size + 1, self.batch_size):
                plan.append((edge, ids[s:s + self.batch_size]))
        self.rng.shuffle(plan)
        for edge, ids in plan:
            yield self.collate(ids, edge)


class Tagger(nn.Module):
    def __init__(self, width=24, heads=2, layers=1):
        super().__init__()
        self.proj = nn.Linear(MELS, width)
        self.conv = nn.ModuleList(
            [nn.Conv1d(width, width, 5, padding=2, groups=width) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.ffn = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
             for _ in range(layers)])
        self.pool = nn.MultiheadAttention(width, heads, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, mel, mask):
        x = self.proj(mel)
        for conv, norm, ffn in zip(self.conv, self.norm, self.ffn):
            h = norm(x) * mask.unsqueeze(-1)
            x = x + conv(h.transpose(1, 2)).transpose(1, 2)
            x = x + ffn(x)
        q = self.query.expand(x.size(0), -1, -1)
        pooled, _ = self.pool(q, x, x, key_padding_mask=mask == 0, need_weights=False)
        return self.head(pooled.squeeze(1))


@torch.no_grad()
def evaluate(model, clips, device):
    model.eval()
    correct, seen = torch.zeros((), device=device), 0
    loader = BucketLoader(clips, (EDGES[-1],), BATCH, seed=0)
    for mel, mask, label in loader:
        logits = model(mel.to(device), mask.to(device))
        correct += (logits.argmax(-1) == label.to(device)).sum()
        seen += label.numel()
        torch_xla.sync()
    model.train()
    return correct.item() / seen


def main(epochs=4):
    torch.manual_seed(17)
    device = torch_xla.device()
    train = BucketLoader(make_clips(110, seed=17), EDGES, BATCH, seed=17)
    held_out = make_clips(24, seed=18)
    model = Tagger().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=epochs * 14)
    torch_xla.sync()

    for epoch in range(epochs):
        losses = []
        for mel, mask, label in train:
            mel, mask, label = mel.to(device), mask.to(device), label.to(device)
            loss = F.cross_entropy(model(mel, mask), label, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.detach())
            torch_xla.sync()
        acc = evaluate(model, held_out, device)
        mean = sum(x.item() for x in losses) / len(losses)
        print(f"epoch {epoch}: {len(losses)} batches  loss {mean:.4f}  acc {acc:.3f}")


if __name__ == "__main__":
    main()
