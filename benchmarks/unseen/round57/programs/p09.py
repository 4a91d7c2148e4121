"""Adapter finetuning of a frozen text encoder, with SVD-style low-rank updates whose rank budget shrinks."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class LowRankLinear(nn.Module):
    """y = W x + P diag(e) Q x with W frozen."""

    def __init__(self, base, rank, scale=2.0):
        super().__init__()
        self.base = base
        self.P = nn.Parameter(torch.randn(base.out_features, rank) * 0.05)
        self.Q = nn.Parameter(torch.randn(rank, base.in_features) * 0.05)
        self.e = nn.Parameter(torch.zeros(rank))
        self.scale = scale / rank

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.Q) * self.e, self.P) * self.scale

    def orth(self):
        eye = torch.eye(self.Q.shape[0], device=self.Q.device)
        return ((self.P.t() @ self.P - eye) ** 2).mean() + ((self.Q @ self.Q.t() - eye) ** 2).mean()


class Layer(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self, vocab=64, dim=24, layers=2, classes=4, length=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def attach(model, rank, names=("qkv", "up")):
    model.requires_grad_(False)
    adapters = []
    for layer in model.layers:
        for n in names:
            wrapped = LowRankLinear(getattr(layer, n), rank)
            setattr(layer, n, wrapped)
            adapters.append(wrapped)
    model.head.requires_grad_(True)
    return adapters


class RankAllocator:
    """Importance = smoothed |e * grad|; only the globally strongest directions stay alive."""

    def __init__(self, adapters, final, t_init, t_final, total, decay=0.85):
        self.adapters = adapters
        self.start = sum(a.e.numel() for a in adapters)
        self.final, self.decay = final, decay
        self.t_init, self.t_final, self.total = t_init, t_final, total
        self.score = [torch.zeros_like(a.e) for a in adapters]

    def budget(self, step):
        if step < self.t_init:
            return self.start
        if step >= self.total - self.t_final:
            return self.final
        r = 1 - (step - self.t_init) / (self.total - self.t_final - self.t_init)
        return int(self.final + (self.start - self.final) * r ** 3)

    @torch.no_grad()
    def accumulate(self):
        for s, a in zip(self.score, self.adapters):
            s.mul_(self.decay).add_((a.e * a.e.grad).abs(), alpha=1 - self.decay)

    @torch.no_grad()
    def prune(self, step):
        keep = self.budget(step)
        if keep == self.start:
            return keep
        flat = torch.cat(self.score)
        threshold = torch.topk(flat, keep).values[-1]
        for s, a in zip(self.score, self.adapters):
            a.e.masked_fill_(s < threshold, 0.0)
        return keep


def make_batch(n, gen):
    """Class = which of four marker symbols occurs most often."""
    ids = torch.randint(4, 64, (n, 16), generator=gen)
    label = torch.randint(0, 4, (n,), generator=gen)
    marks = torch.rand(n, 16, generator=gen) < 0.3
    return torch.where(marks, label[:, None], ids), label


def main():
    torch.manual_seed(51)
    gen = torch.Generator().manual_seed(51)
    device = torch_xla.device()
    steps, warmup, peak = 60, 6, 1e-2

    model = Encoder()
    adapters = attach(model, rank=12)
    model.to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=peak, weight_decay=0.0)
    allocator = RankAllocator(adapters, final=12, t_init=8, t_final=12, total=steps)

    seen = torch.zeros((), device=device)
    right = torch.zeros((), device=device)
    for step in range(steps):
        for g in opt.param_groups:
            g["lr"] = peak * min((step + 1) / warmup, (steps - step) / (steps - warmup))
        ids, label = make_batch(32, gen)
        ids, label = ids.to(device), label.to(device)
        logits = model(ids)
        task = F.cross_entropy(logits, label, label_smoothing=0.05)
        loss = task + 0.1 * sum(a.orth() for a in adapters)
        loss.backward()
        allocator.accumulate()
        opt.step()
        keep = allocator.prune(step)
        opt.zero_grad(set_to_none=True)
        right = right * 0.9 + (logits.argmax(-1) == label).float().sum()
        seen = seen * 0.9 + float(len(label))
        xm.mark_step()
        if (step + 1) % 12 == 0:
            print(f"step {step + 1:3d} task {task.item():.4f} acc {(right / seen).item():.3f} ranks {keep}")


if __name__ == "__main__":
    main()
