"""Card-fraud scoring with a mixer over the recent transactions of a card."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class TransactionEmbedding(nn.Module):
    """Merchant category + amount + time gap -> one token per transaction."""

    def __init__(self, categories, dim):
        super().__init__()
        self.category = nn.Embedding(categories, dim)
        self.numeric = nn.Linear(3, dim)

    def forward(self, category, amount, gap):
        num = torch.stack([torch.log1p(amount), torch.log1p(gap), (amount > 500).float()], dim=-1)
        return self.category(category) + self.numeric(num)


class MixerLayer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm_t = nn.LayerNorm(dim)
        self.mix_t = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.norm_c = nn.LayerNorm(dim)
        self.mix_c = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.mix_t(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix_c(self.norm_c(x))


class FraudMixer(nn.Module):
    def __init__(self, categories=30, tokens=10, dim=16, depth=2):
        super().__init__()
        self.embed = TransactionEmbedding(categories, dim)
        self.layers = nn.ModuleList(MixerLayer(tokens, dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)

    def forward(self, category, amount, gap):
        x = self.embed(category, amount, gap)
        for layer in self.layers:
            x = layer(x)
        return self.score(x[:, -1]).squeeze(-1)


def focal_bce(logit, label, gamma=2.0, alpha=0.8):
    ce = F.binary_cross_entropy_with_logits(logit, label, reduction="none")
    p = torch.sigmoid(logit)
    p_t = p * label + (1 - p) * (1 - label)
    a_t = alpha * label + (1 - alpha) * (1 - label)
    return (a_t * (1 - p_t) ** gamma * ce).mean()


def cards(n, tokens, categories, gen):
    category = torch.randint(0, categories, (n, tokens), generator=gen)
    amount = torch.exp(torch.randn(n, tokens, generator=gen) + 3.5)
    gap = torch.exp(2 * torch.randn(n, tokens, generator=gen) + 6)
    risk = (amount[:, -1] > 80).float() * (gap[:, -1] < 500).float()
    label = (torch.rand(n, generator=gen) < 0.02 + 0.5 * risk).float()
    return category, amount, gap, label


def make_optimizer(name, model, lr):
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 1e-2}, {"params": plain, "weight_decay": 0.0}]
    if name == "radam":
        return torch.optim.RAdam(groups, lr=lr, decoupled_weight_decay=True)
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=lr)
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--optimizer", choices=("radam", "adamw", "sgd"), default="radam")
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--seed", type=int, default=9)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    device = xm.xla_device()
    data = cards(600, 10, 30, gen)

    model = FraudMixer().to(device)
    opt = make_optimizer(args.optimizer, model, args.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda t: 0.5 * (1.02 + 0.98 * math.cos(math.pi * t / args.steps)))

    for step in range(args.steps):
        pick = torch.randint(0, data[0].size(0), (args.batch,), generator=gen)
        *inputs, label = (t[pick].to(device) for t in data)
        loss = focal_bce(model(*inputs), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 6 == 5:
            print(f"step {step + 1} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
