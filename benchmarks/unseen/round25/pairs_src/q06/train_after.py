"""Point-cloud classifier with induced set attention.

Cleaned up: the attention core is a function, the optimizer is spelled out, and
the model is assembled from a list of stages.
"""
import math

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn

SETTINGS = dict(points=20, feat=3, dim=32, heads=4, inducing=6, classes=5, batch=6, lr=1e-2, wd=1e-3, steps=4)


def split_heads(t, heads):
    return t.unflatten(-1, (heads, -1))


def multihead(query, key, value, heads):
    query, key, value = (split_heads(t, heads) for t in (query, key, value))
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * (1.0 / math.sqrt(query.size(-1)))
    attn = scores.softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", attn, value).flatten(2)


class AttentionStage(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.ff = nn.Linear(dim, dim)
        self.norm_attn = nn.LayerNorm(dim)
        self.norm_ff = nn.LayerNorm(dim)

    def forward(self, target, source):
        value, key, query = self.value(source), self.key(source), self.query(target)
        y = self.norm_attn(multihead(query, key, value, self.heads) + target)
        return self.norm_ff(F.relu(self.ff(y)) + y)


class PointClassifier(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Linear(s["feat"], s["dim"])
        self.slots = nn.Parameter(torch.randn(1, s["inducing"], s["dim"]) * 0.2)
        self.stages = nn.ModuleList([AttentionStage(s["dim"], s["heads"]) for _ in range(2)])
        self.classify = nn.Linear(s["dim"], s["classes"])

    def forward(self, points):
        gather, scatter = self.stages
        tokens = self.embed(points)
        slots = gather(self.slots.repeat(tokens.size(0), 1, 1), tokens)
        tokens = scatter(tokens, slots)
        return self.classify(tokens.mean(1)), slots


class MomentumSGD:
    def __init__(self, params, lr, momentum, weight_decay):
        self.params = list(params)
        self.lr, self.momentum, self.wd = lr, momentum, weight_decay
        self.velocity = None

    @torch.no_grad()
    def update(self):
        grads = [self.wd * p + p.grad for p in self.params]
        if self.velocity is None:
            self.velocity = grads
        else:
            self.velocity = [g + self.momentum * v for g, v in zip(grads, self.velocity)]
        for p, v in zip(self.params, self.velocity):
            p.add_(v, alpha=-self.lr)

    def clear(self):
        for p in self.params:
            p.grad = None


def make_batch(s, gen):
    y = torch.randint(0, s["classes"], (s["batch"],), generator=gen)
    pts = torch.randn(s["batch"], s["points"], s["feat"], generator=gen)
    pts[:, :, 0] *= (1.0 + y.float())[:, None]
    return pts, y


def classification_loss(logits, target):
    return F.nll_loss(logits.log_softmax(dim=1), target)


def orthogonality(slots):
    identity = torch.eye(slots.size(1), device=slots.device)
    gram = torch.einsum("bid,bjd->bij", slots, slots) / slots.size(-1)
    diff = gram - identity
    return diff.pow(2).mean()


def fit(s):
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    device = torch_xla.device()
    model = PointClassifier(s).to(device)
    sgd = MomentumSGD(model.parameters(), s["lr"], 0.9, s["wd"])
    torch_xla.sync()
    records = []
    for step in range(s["steps"]):
        points, target = make_batch(s, gen)
        target, points = target.to(device), points.to(device)
        sgd.clear()
        logits, slots = model(points)
        ortho = orthogonality(slots)
        ce = classification_loss(logits, target)
        loss = 0.1 * ortho + ce
        loss.backward()
        sgd.update()
        torch_xla.sync()
        records.append((loss.item(), ce.item(), ortho.item()))
        print(step, *("%.6f" % v for v in records[-1]))
    return records


if __name__ == "__main__":
    fit(SETTINGS)
