"""Antibody heavy-chain language model.

Stage 1 trains the decoder on framework regions only with the embedding frozen
in place, stage 2 trains everything on full chains.  Chains are sorted into
three lengths.  Every so often a validation pass and a short sampled design are
shown.
"""
import itertools
import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
import torch_xla

AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD, BOS = 20, 21
VOCAB = 22


@dataclass
class Settings:
    lengths: tuple = (16, 24, 32)
    width: int = 32
    heads: int = 4
    batch: int = 16
    steps: tuple = (24, 36)
    validate_every: int = 12
    sample_every: int = 30
    sample_length: int = 16
    lr: float = 2e-3
    warmup: int = 8
    seed: int = 17
    stages: tuple = field(default=("framework", "full"))


class Chains(Dataset):
    def __init__(self, n, settings, seed):
        g = torch.Generator().manual_seed(seed)
        step = torch.randint(1, 5, (n,), generator=g)
        start = torch.randint(20, (n,), generator=g)
        size = torch.randint(9, max(settings.lengths) + 1, (n,), generator=g)
        self.items = []
        for a, b, k in zip(start.tolist(), step.tolist(), size.tolist()):
            tokens = (a + b * torch.arange(k)) % 20
            noise = torch.rand(k, generator=g) < 0.1
            tokens[noise] = torch.randint(20, (int(noise.sum()),), generator=g)
            self.items.append(tokens)
        self.bucket = [next(l for l in settings.lengths if l >= len(t)) for t in self.items]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        tokens = torch.full((self.bucket[i] + 1,), PAD)
        tokens[0] = BOS
        tokens[1:1 + len(self.items[i])] = self.items[i]
        return tokens


class ByLength(Sampler):
    def __init__(self, chains, batch, generator):
        self.chains, self.batch, self.generator = chains, batch, generator

    def __iter__(self):
        batches = []
        for length in sorted(set(self.chains.bucket)):
            ids = [i for i, l in enumerate(self.chains.bucket) if l == length]
            order = torch.randperm(len(ids), generator=self.generator).tolist()
            for k in range(0, len(ids) - self.batch + 1, self.batch):
                batches.append([ids[j] for j in order[k:k + self.batch]])
        for j in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[j]


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.token = nn.Embedding(VOCAB, s.width)
        self.place = nn.Parameter(torch.randn(max(s.lengths) + 1, s.width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            s.width, s.heads, 2 * s.width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(s.width, VOCAB)

    def forward(self, tokens):
        t = tokens.shape[1]
        mask = torch.full((t, t), float("-inf"), device=tokens.device).triu(1)
        h = self.token(tokens) + self.place[:t]
        return self.out(self.layers(h, mask=mask, is_causal=True))


def chain_loss(model, tokens, region):
    logits = model(tokens[:, :-1])
    target = tokens[:, 1:]
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    keep = (target != PAD).flatten().float()
    if region == "framework":
        place = torch.arange(target.shape[1], device=tokens.device)
        keep = keep * ((place < 6) | (place > 9)).float().repeat(target.shape[0])
    return (loss * keep).sum() / keep.sum()


@torch.no_grad()
def validate(model, batches):
    total = torch.zeros((), device=batches[0].device)
    for tokens in batches:
        total += chain_loss(model, tokens, "full")
    torch_xla.sync()
    return math.exp(total.item() / len(batches))


@torch.no_grad()
def design(model, length, device):
    tokens = torch.full((4, length + 1), PAD, device=device)
    tokens[:, 0] = BOS
    at = torch.tensor(0, device=device)
    for _ in range(length):
        logits = model(tokens[:, :-1]).index_select(1, at.view(1)).squeeze(1)[:, :20]
        pick = torch.multinomial(torch.softmax(logits, -1), 1)
        at = at + 1
        tokens = tokens.index_copy(1, at.view(1), pick)
        torch_xla.sync()
    return ["".join(AMINO[a] for a in row[1:]) for row in tokens.cpu().tolist()]


def main():
    s = Settings()
    torch.manual_seed(s.seed)
    device = torch_xla.device()
    train = Chains(800, s, 1)
    loader = DataLoader(train, batch_sampler=ByLength(train, s.batch, torch.Generator().manual_seed(3)))
    stream = itertools.chain.from_iterable(itertools.repeat(loader))
    test = Chains(200, s, 2)
    test_loader = DataLoader(test, batch_sampler=ByLength(test, s.batch, torch.Generator().manual_seed(4)))
    held_out = [b.to(device) for b in itertools.islice(test_loader, 5)]

    model = Decoder(s).to(device)
    done = 0
    for region, steps in zip(s.stages, s.steps):
        model.token.weight.requires_grad_(region == "full")
        params = [p for p in model.parameters() if p.requires_grad]
        opt = torch.optim.AdamW(params, lr=s.lr)
        warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min(1.0, (k + 1) / s.warmup))
        for _ in range(steps):
            tokens = next(stream).to(device)
            loss = chain_loss(model, tokens, region)
            opt.zero_grad()
            loss.backward()
            opt.step()
            warm.step()
            torch_xla.sync()
            done += 1
            if done % s.validate_every == 0:
                model.eval()
                print(f"{region:9s} {done:3d}  loss {loss.item():.3f}  perplexity {validate(model, held_out):.2f}")
                model.train()
            if done % s.sample_every == 0:
                model.eval()
                print("  designs:", *design(model, s.sample_length, device)[:2])
                model.train()


if __name__ == "__main__":
    main()
