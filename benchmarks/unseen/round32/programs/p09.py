"""Multi-task fine-tuning of a small text encoder: topic, polarity, tagging and similarity in one optimizer step."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, SEQ, DIM = 120, 14, 24
PAD = 0


class TaskData:
    """Endless synthetic batches; labels are functions of which tokens appear."""

    def __init__(self, name, batch_size, seed):
        self.name = name
        self.batch_size = batch_size
        self.gen = torch.Generator().manual_seed(seed)

    def tokens(self):
        ids = torch.randint(1, VOCAB, (self.batch_size, SEQ), generator=self.gen)
        length = torch.randint(5, SEQ + 1, (self.batch_size, 1), generator=self.gen)
        return ids.masked_fill(torch.arange(SEQ)[None] >= length, PAD)

    def next(self):
        ids = self.tokens()
        if self.name == "topic":
            return ids, ids[:, :5].sum(1) % 4
        if self.name == "polarity":
            return ids, ((ids > 60).sum(1) > (ids > 0).sum(1) / 2).float()
        if self.name == "tagging":
            tags = torch.where(ids == PAD, -100, ids // 40)
            return ids, tags
        other = torch.where(torch.rand(ids.shape, generator=self.gen) < 0.3, self.tokens(), ids)
        same = (other == ids).float().mean(1)
        return torch.stack([ids, other], dim=1), same


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(SEQ, DIM) * 0.02)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, ids):
        mask = ids != PAD
        x = self.emb(ids) + self.pos
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        att = (q @ k.transpose(1, 2)) / DIM ** 0.5
        att = att.masked_fill(~mask[:, None, :], -1e4).softmax(dim=-1)
        x = x + self.proj(att @ v)
        x = x + self.mlp(self.norm2(x))
        weight = mask.float().unsqueeze(-1)
        pooled = (x * weight).sum(1) / weight.sum(1)
        return x, pooled


class MultiTaskModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.heads = nn.ModuleDict({
            "topic": nn.Linear(DIM, 4),
            "polarity": nn.Linear(DIM, 1),
            "tagging": nn.Linear(DIM, 3),
            "similarity": nn.Bilinear(DIM, DIM, 1),
        })

    def loss(self, task, ids, target):
        head = self.heads[task]
        if task == "similarity":
            _, pooled = self.encoder(ids.flatten(0, 1))
            a, b = pooled.unflatten(0, (-1, 2)).unbind(1)
            return F.mse_loss(torch.sigmoid(head(a, b).squeeze(1)), target)
        states, pooled = self.encoder(ids)
        if task == "tagging":
            return F.cross_entropy(head(states).flatten(0, 1), target.flatten(), ignore_index=-100)
        if task == "polarity":
            return F.binary_cross_entropy_with_logits(head(pooled).squeeze(1), target)
        return F.cross_entropy(head(pooled), target)


class TaskMixer:
    """Hands out one batch of every task per round."""

    def __init__(self, sources, seed):
        self.sources = sources
        self.rng = random.Random(seed)

    def round(self):
        names = list(self.sources)
        self.rng.shuffle(names)
        for name in names:
            ids, target = self.sources[name].next()
            yield name, ids, target


def main():
    torch.manual_seed(51)
    device = torch_xla.device()
    weights = {"topic": 1.0, "polarity": 0.7, "tagging": 0.5, "similarity": 2.0}
    sources = {name: TaskData(name, 8, 60 + i) for i, name in enumerate(weights)}
    mixer = TaskMixer(sources, seed=9)
    model = MultiTaskModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=10)
    torch_xla.sync()

    meters = defaultdict(float)
    for step in range(18):
        opt.zero_grad(set_to_none=True)
        losses = {}
        for task, ids, target in mixer.round():
            loss = model.loss(task, ids.to(device), target.to(device))
            (weights[task] * loss).backward()
            losses[task] = loss.detach()
        xm.optimizer_step(opt, barrier=True)
        sched.step()
        for task, value in losses.items():
            meters[task] = 0.9 * meters[task] + 0.1 * value.item()
        if step % 6 == 5:
            print(f"step {step + 1} " + " ".join(f"{t} {meters[t]:.3f}" for t in weights))


if __name__ == "__main__":
    main()
