"""Keyword spotting with clips grouped into a few frame-length buckets."""
import bisect
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

MELS = 20
WORDS = 6
BUCKETS = (32, 48, 64)
BATCH = 16
EPOCHS = 4


def synth_clip(g, word, frames):
    t = torch.arange(frames).float() / frames
    centre = 3 + 2.2 * word + 4 * torch.sin(3.14 * t * (1 + 0.3 * word))
    bins = torch.arange(MELS).float()
    clip = torch.exp(-((bins[None] - centre[:, None]) ** 2) / 4)
    return clip + 0.2 * torch.randn(frames, MELS, generator=g)


def build_corpus(n, seed):
    g = torch.Generator().manual_seed(seed)
    corpus = []
    for _ in range(n):
        word = int(torch.randint(WORDS, (1,), generator=g))
        frames = int(torch.randint(20, BUCKETS[-1] + 1, (1,), generator=g))
        corpus.append((synth_clip(g, word, frames), word))
    return corpus


class BucketedBatches:
    """Fixed (batch, frames) shapes; short groups are filled with repeated clips."""

    def __init__(self, corpus, seed):
        self.rng = random.Random(seed)
        self.groups = {b: [] for b in BUCKETS}
        for clip, word in corpus:
            self.groups[BUCKETS[bisect.bisect_left(BUCKETS, clip.shape[0])]].append((clip, word))

    @staticmethod
    def collate(items, frames):
        x = torch.zeros(len(items), frames, MELS)
        lens = torch.zeros(len(items), dtype=torch.long)
        for i, (clip, _) in enumerate(items):
            x[i, : clip.shape[0]] = clip
            lens[i] = clip.shape[0]
        return x, lens, torch.tensor([w for _, w in items])

    def __iter__(self):
        plan = []
        for frames, items in self.groups.items():
            order = items[:]
            self.rng.shuffle(order)
            for i in range(0, len(order), BATCH):
                part = order[i : i + BATCH]
                while len(part) < BATCH:
                    part.append(self.rng.choice(order))
                plan.append((frames, part))
        self.rng.shuffle(plan)
        for frames, part in plan:
            yield self.collate(part, frames)


class Spotter(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.front = nn.Conv1d(MELS, dim, 5, padding=2)
        self.depth = nn.ModuleList(
            nn.Conv1d(dim, dim, 7, padding=3 * d, dilation=d, groups=dim) for d in (1, 2, 4)
        )
        self.point = nn.ModuleList(nn.Conv1d(dim, dim, 1) for _ in range(3))
        self.score = nn.Linear(dim, 1)
        self.head = nn.Linear(dim, WORDS)

    def forward(self, x, lens):
        keep = torch.arange(x.shape[1], device=x.device)[None] < lens[:, None]
        h = F.relu(self.front(x.transpose(1, 2)))
        for dw, pw in zip(self.depth, self.point):
            h = h + F.relu(pw(dw(h * keep[:, None])))
        h = h.transpose(1, 2)
        att = self.score(h).squeeze(-1).masked_fill(~keep, -1e9).softmax(-1)
        return self.head((att[..., None] * h).sum(1))


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    hits = []
    seen = 0
    for x, lens, y in batches:
        pred = model(x.to(device), lens.to(device)).argmax(-1)
        hits.append((pred == y.to(device)).sum())
        seen += len(y)
        xm.mark_step()
    model.train()
    return torch.stack(hits).sum().item() / seen


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    train = BucketedBatches(build_corpus(200, seed=1), seed=1)
    valid = BucketedBatches(build_corpus(60, seed=2), seed=2)
    model = Spotter().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.5)

    step = 0
    for epoch in range(EPOCHS):
        losses = []
        for x, lens, y in train:
            for group in opt.param_groups:
                group["lr"] = 1e-3 * min(1.0, (step + 1) / 10) * 0.98**step
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(device), lens.to(device)), y.to(device))
            loss.backward()
            opt.step()
            losses.append(loss.detach())
            xm.mark_step()
            step += 1
        mean_loss = torch.stack(losses).mean().item()
        acc = validate(model, valid, device)
        print(f"epoch {epoch} step {step} loss {mean_loss:.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
