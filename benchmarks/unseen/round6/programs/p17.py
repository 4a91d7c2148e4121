"""Multi-task text encoder: retrieval, tagging and similarity in turns."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, TAGS, DIM = 70, 5, 24
SIZES = {"retrieval": (12, 16), "tagging": (6, 24), "similarity": (10, 12)}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.gates = nn.ModuleList([nn.Conv1d(DIM, 2 * DIM, 3, padding=1) for _ in range(2)])

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        for g in self.gates:
            value, gate = g(x).chunk(2, dim=1)
            x = x + value * gate.sigmoid()
        return x.transpose(1, 2)


class Heads(nn.ModuleDict):
    def __init__(self):
        super().__init__({
            "retrieval": nn.Linear(DIM, DIM),
            "tagging": nn.Linear(DIM, TAGS),
            "similarity": nn.Linear(2 * DIM, 1)})


def text(n, width, g):
    return torch.randint(1, VOCAB, (n, width), generator=g)


def make_batch(task, g):
    n, width = SIZES[task]
    a = text(n, width, g)
    if task == "retrieval":
        return {"a": a, "b": torch.where(torch.rand(n, width, generator=g) < 0.3, text(n, width, g), a)}
    if task == "tagging":
        return {"a": a, "y": a % TAGS}
    b = torch.where(torch.rand(n, 1, generator=g) < 0.5, a.roll(1, 1), text(n, width, g))
    return {"a": a, "b": b, "y": (a.roll(1, 1) == b).float().mean(1)}


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.heads = Encoder(), Heads()

    def loss(self, task, batch, scale):
        h = self.encoder(batch["a"])
        head = self.heads[task]
        if task == "tagging":
            return F.cross_entropy(head(h).flatten(0, 1), batch["y"].flatten())
        u, v = h.mean(1), self.encoder(batch["b"]).mean(1)
        if task == "similarity":
            return F.mse_loss(head(torch.cat([u * v, (u - v).abs()], 1)).squeeze(1).sigmoid(), batch["y"])
        u, v = F.normalize(head(u), dim=1), F.normalize(head(v), dim=1)
        logits = u @ v.t() * scale
        return F.cross_entropy(logits, torch.arange(u.shape[0], device=u.device))


class Trainer:
    def __init__(self, device):
        self.device, self.model = device, MultiTask().to(device)
        shared = list(self.model.encoder.parameters())
        self.opts = {t: torch.optim.SGD(shared + list(self.model.heads[t].parameters()), lr=0.05) for t in SIZES}
        self.g = torch.Generator().manual_seed(1)
        self.sums = {t: [0.0, 0] for t in SIZES}

    def to(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def step(self, task, n):
        opt = self.opts[task]
        for group in opt.param_groups:
            group["lr"] = 0.05 / (1 + 0.01 * n)
        loss = self.model.loss(task, self.to(make_batch(task, self.g)), 8.0 + 0.05 * n)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(opt, barrier=False)
        torch_xla.sync()
        return loss.detach()

    def note(self, task, loss):
        s = self.sums[task]
        s[0] += loss.item()
        s[1] += 1

    @torch.no_grad()
    def recall(self):
        g = torch.Generator().manual_seed(77)
        hits = 0.0
        for _ in range(3):
            b = self.to(make_batch("retrieval", g))
            u, v = (F.normalize(self.model.heads["retrieval"](self.model.encoder(b[k]).mean(1)), dim=1) for k in "ab")
            r = ((u @ v.t()).argmax(1) == torch.arange(u.shape[0], device=u.device)).float().mean()
            torch_xla.sync()
            hits += r.item()
        return hits / 3


def main():
    torch.manual_seed(0)
    trainer = Trainer(torch_xla.device())
    torch_xla.sync()
    order = itertools.cycle(["retrieval", "tagging", "retrieval", "similarity"])
    for n in range(56):
        task = next(order)
        loss = trainer.step(task, n)
        if n % 4 in (1, 2, 3):
            trainer.note(task, loss)
        if (n + 1) % 14 == 0:
            means = {t: round(s / max(c, 1), 3) for t, (s, c) in trainer.sums.items()}
            print(n + 1, means, "recall", round(trainer.recall(), 3))


if __name__ == "__main__":
    main()
