"""Character LM on sentences of mixed length: length buckets, gradient accumulation, periodic perplexity."""
import random
import string

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD = 0
VOCAB = {c: i + 1 for i, c in enumerate(string.ascii_lowercase + " .")}
BUCKETS = [16, 32, 48]
WORDS = "the a cat dog bird sees hears likes small red old house tree and under over near runs sleeps".split()

options = {"batch": 16, "accum": 4, "d": 32, "heads": 4, "layers": 2, "lr": 3e-3, "updates": 45, "eval_every": 9}


def sentence(rng):
    n = rng.randint(2, 9)
    s = " ".join(rng.choice(WORDS) for _ in range(n)) + "."
    return [VOCAB[c] for c in s][:BUCKETS[-1]]


class BucketSampler:
    """Fills every bucket and draws whole batches of one bucket; every row is padded to the bucket's size."""

    def __init__(self, sents, batch, seed):
        self.rng = random.Random(seed)
        self.batch = batch
        self.by = {b: [] for b in BUCKETS}
        for s in sents:
            self.by[next(b for b in BUCKETS if len(s) <= b)].append(s)
        self.weights = [len(self.by[b]) for b in BUCKETS]

    def draw(self, bucket=None):
        b = bucket or self.rng.choices(BUCKETS, self.weights)[0]
        rows = self.rng.sample(self.by[b], self.batch)
        out = torch.full((self.batch, b), PAD)
        for i, r in enumerate(rows):
            out[i, :len(r)] = torch.tensor(r)
        return out


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5 + bias
        x = x + self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tok = nn.Embedding(len(VOCAB) + 1, o["d"], padding_idx=PAD)
        self.pos = nn.Embedding(BUCKETS[-1], o["d"])
        self.blocks = nn.ModuleList(Block(o["d"], o["heads"]) for _ in range(o["layers"]))
        self.out = nn.Linear(o["d"], len(VOCAB) + 1)

    def forward(self, ids):
        t = ids.size(1)
        x = self.tok(ids) + self.pos(torch.arange(t, device=ids.device))
        bias = torch.full((t, t), -1e4, device=ids.device).triu(1)
        for blk in self.blocks:
            x = blk(x, bias)
        return self.out(x)


def nll(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


def perplexity(model, held_out):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for ids in held_out:
            loss = nll(model, ids)
            torch_xla.sync()
            total += loss.item()
    model.train()
    return float(torch.tensor(total / len(held_out)).exp())


def main(o=options):
    torch.manual_seed(0)
    dev = torch_xla.device()
    rng = random.Random(0)
    train = BucketSampler([sentence(rng) for _ in range(600)], o["batch"], seed=1)
    test = BucketSampler([sentence(rng) for _ in range(300)], o["batch"], seed=2)
    held_out = [test.draw(b).to(dev) for b in BUCKETS]
    model = CharLM(o).to(dev)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    opt = torch.optim.AdamW(model.parameters(), lr=o["lr"], betas=(0.9, 0.95))
    torch_xla.sync()

    for update in range(1, o["updates"] + 1):
        for _ in range(o["accum"]):
            ids = train.draw().to(dev)
            (nll(model, ids) / o["accum"]).backward()
            torch_xla.sync()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=False)
        torch_xla.sync()
        if update % o["eval_every"] == 0:
            print(f"update {update} ppl {perplexity(model, held_out):.2f}", flush=True)


main()
