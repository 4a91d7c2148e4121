"""Two-tower retrieval (query words -> document words) with in-batch negatives; the document tower is fine-tuned
with a few layers at a time to keep the optimizer's work small."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, Q_LEN, D_LEN = 200, 6, 16


class TopicData:
    def __init__(self, topics, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.probs = torch.softmax(3.0 * torch.randn(topics, VOCAB, generator=self.g), -1)

    def batch(self, n):
        topic = torch.randperm(self.probs.size(0), generator=self.g)[:n]
        p = self.probs[topic]
        q = torch.multinomial(p, Q_LEN, replacement=True, generator=self.g)
        d = torch.multinomial(p, D_LEN, replacement=True, generator=self.g)
        return q, d


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.norm(x)
        h = self.fc2(F.gelu(self.fc1(h))) + self.mix(h.mean(1, keepdim=True))
        return x + h


class Tower(nn.Module):
    def __init__(self, depth, dim=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, dim)

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h)
        return F.normalize(self.head(h.mean(1)), dim=-1)


class LayerSchedule:
    """Keeps `active` layers of a tower trainable and draws a new set every `period` steps."""

    def __init__(self, tower, active, period, seed):
        self.tower, self.active, self.period = tower, active, period
        self.rng = random.Random(seed)

    def step(self, it):
        if it % self.period:
            return
        chosen = set(self.rng.sample(range(len(self.tower.layers)), self.active))
        for i, layer in enumerate(self.tower.layers):
            layer.requires_grad_(i in chosen)


class Retriever(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.doc = Tower(1), Tower(6)
        self.logit_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, q, d):
        zq, zd = self.query(q), self.doc(d)
        return self.logit_scale.exp().clamp(max=50.0) * zq @ zd.t()


def info_nce(sim):
    target = torch.arange(sim.size(0), device=sim.device)
    return 0.5 * (F.cross_entropy(sim, target) + F.cross_entropy(sim.t(), target))


@torch.no_grad()
def recall_at(model, q, d, ks=(1, 5)):
    model.eval()
    sim = model(q, d)
    rank = (sim > sim.diagonal().unsqueeze(1)).sum(1)
    out = torch.stack([(rank < k).float().mean() for k in ks])
    model.train()
    return out.tolist()


def main():
    torch.manual_seed(4)
    device = torch_xla.device()
    data = TopicData(80, 8)
    eval_q, eval_d = (t.to(device) for t in data.batch(64))
    model = Retriever().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = LayerSchedule(model.doc, active=2, period=3, seed=6)
    ema_loss = torch.zeros((), device=device)
    steps = 36

    for it in range(steps):
        schedule.step(it)
        for group in opt.param_groups:
            group["lr"] = 3e-3 * min(1.0, (it + 1) / 6) * (1 - 0.8 * it / steps)
        q, d = (t.to(device) for t in data.batch(32))
        loss = info_nce(model(q, d))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        ema_loss.lerp_(loss.detach(), 0.1)
        torch_xla.sync()
        if (it + 1) % 12 == 0:
            r1, r5 = recall_at(model, eval_q, eval_d)
            xm.master_print(f"it {it + 1} loss {ema_loss.item():.3f} R@1 {r1:.2f} R@5 {r5:.2f}")


if __name__ == "__main__":
    main()
