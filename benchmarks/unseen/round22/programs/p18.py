# Sentence classification with length buckets and gradient accumulation.
import random
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, CLASSES, DIM = 120, 3, 24
BUCKETS = (8, 16, 32)
BATCH, ACCUM = 16, 2
UPDATES, EVAL_EVERY = 90, 15
PAD = 0


def corpus(n, rnd):
    out = []
    for _ in range(n):
        label = rnd.randrange(CLASSES)
        length = rnd.randint(3, BUCKETS[-1])
        sent = [rnd.randrange(1, 40) + 40 * label if rnd.random() < 0.6 else rnd.randrange(1, VOCAB) for _ in range(length)]
        out.append(([min(t, VOCAB - 1) for t in sent], label))
    return out


def bucketize(samples):
    bins = {b: [] for b in BUCKETS}
    for sent, label in samples:
        size = next(b for b in BUCKETS if len(sent) <= b)
        bins[size].append((sent + [PAD] * (size - len(sent)), label))
    return bins


def draw(bins, rnd, size=None):
    size = size or rnd.choices(BUCKETS, weights=[len(bins[b]) for b in BUCKETS])[0]
    rows = rnd.sample(bins[size], BATCH)
    return torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.pos = nn.Parameter(0.02 * torch.randn(1, BUCKETS[-1], DIM))
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 48), nn.GELU(), nn.Linear(48, DIM))
        self.norm = nn.LayerNorm(DIM)
        self.cls = nn.Linear(DIM, CLASSES)

    def forward(self, ids):
        keep = ids != PAD
        x = self.tok(ids) + self.pos[:, : ids.size(1)]
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        att = (q @ k.transpose(1, 2)) / DIM**0.5
        att = att.masked_fill(~keep[:, None, :], -1e4).softmax(-1)
        x = x + self.proj(att @ v)
        x = x + self.ff(x)
        w = keep.unsqueeze(-1).float()
        return self.cls((x * w).sum(1) / w.sum(1))


@torch.no_grad()
def evaluate(model, bins, rnd, device):
    model.eval()
    right, total = torch.zeros((), device=device), 0
    for size in BUCKETS:
        for _ in range(3):
            ids, y = draw(bins, rnd, size)
            right += (model(ids.to(device)).argmax(-1) == y.to(device)).float().sum()
            total += BATCH
            xm.mark_step()
    model.train()
    return right.item() / total


def main():
    rnd = random.Random(8)
    torch.manual_seed(8)
    device = xm.xla_device()
    train, dev = bucketize(corpus(900, rnd)), bucketize(corpus(300, rnd))
    model = Encoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 10, 1.0) * 0.99**s)

    for update in range(1, UPDATES + 1):
        for micro in range(ACCUM):
            ids, y = draw(train, rnd)
            loss = F.cross_entropy(model(ids.to(device)), y.to(device)) / ACCUM
            loss.backward()
            if micro < ACCUM - 1:
                xm.mark_step()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        xm.mark_step()
        sched.step()
        if update % EVAL_EVERY == 0:
            acc = evaluate(model, dev, rnd, device)
            print(f"update {update} loss {loss.item() * ACCUM:.3f} dev acc {acc:.3f}")


if __name__ == "__main__":
    main()
