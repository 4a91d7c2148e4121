"""DeepFM for ad click-through, resumed from the nightly checkpoint and trained on today's impressions."""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = [50, 24, 7, 31, 12]
NUM_DENSE = 6
RESUME_STEP = int(os.environ.get("RESUME_STEP", "320"))
STEPS = int(os.environ.get("STEPS", "8"))


class FeaturesEmbedding(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.table = nn.Embedding(sum(vocab), dim)
        self.register_buffer("offsets", torch.tensor([0, *np.cumsum(vocab)[:-1]], dtype=torch.long))
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, ids):
        return self.table(ids + self.offsets)


class DeepFM(nn.Module):
    def __init__(self, vocab, num_dense, dim=8, hidden=(32, 16), p=0.1):
        super().__init__()
        self.first_order = FeaturesEmbedding(vocab, 1)
        self.second_order = FeaturesEmbedding(vocab, dim)
        self.dense_proj = nn.Linear(num_dense, dim)
        layers, width = [], (len(vocab) + 1) * dim
        for h in hidden:
            layers += [nn.Linear(width, h), nn.LayerNorm(h), nn.ReLU(), nn.Dropout(p)]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids, dense):
        v = self.second_order(ids)
        v = torch.cat([v, self.dense_proj(dense).unsqueeze(1)], dim=1)
        square_of_sum = v.sum(1).pow(2)
        sum_of_square = v.pow(2).sum(1)
        fm = 0.5 * (square_of_sum - sum_of_square).sum(-1)
        linear = self.first_order(ids).sum((1, 2))
        deep = self.deep(v.flatten(1)).squeeze(-1)
        return self.bias + linear + fm + deep


def impressions(seed, batch=64):
    rng = np.random.default_rng(seed)
    while True:
        ids = np.stack([rng.integers(0, n, batch) for n in VOCAB], 1)
        dense = np.log1p(rng.exponential(4.0, (batch, NUM_DENSE))).astype(np.float32)
        clicks = (rng.random(batch) < 0.1 + 0.3 * (ids[:, 2] == 3)).astype(np.float32)
        yield torch.from_numpy(ids), torch.from_numpy(dense), torch.from_numpy(clicks)


def load_checkpoint(model, opt, step):
    g = torch.Generator().manual_seed(11)
    for p in model.parameters():
        opt.state[p] = {
            "step": torch.tensor(float(step)),
            "exp_avg": (torch.randn(p.shape, generator=g) * 1e-3).to(p.device),
            "exp_avg_sq": (torch.rand(p.shape, generator=g) * 1e-5 + 1e-8).to(p.device),
        }
    return step


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    model = DeepFM(VOCAB, NUM_DENSE).to(device).train()
    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    step = load_checkpoint(model, opt, RESUME_STEP)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: (1.0 + n / 500) ** -0.5)
    seen = torch.zeros((), device=device)
    loss_sum = torch.zeros((), device=device)
    torch_xla.sync()

    stream = impressions(17)
    for _ in range(STEPS):
        ids, dense, clicks = (t.to(device) for t in next(stream))
        logits = model(ids, dense)
        loss = F.binary_cross_entropy_with_logits(logits, clicks)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        seen += clicks.shape[0]
        loss_sum += loss.detach() * clicks.shape[0]
        step += 1
        torch_xla.sync()
    print(f"step {step}  logloss {(loss_sum / seen).item():.4f}")


if __name__ == "__main__":
    main()
