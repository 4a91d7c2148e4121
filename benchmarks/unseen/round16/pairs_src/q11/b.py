"""Tabular transformer for credit-default prediction (feature tokeniser + attention)."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NUM, CATS = 6, (4, 7, 3)


class FeatureTokens(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(NUM, d) * 0.1)
        self.shift = nn.Parameter(torch.zeros(NUM, d))
        self.cats = nn.ModuleList(nn.Embedding(c, d) for c in CATS)
        self.cls = nn.Parameter(torch.randn(1, 1, d) * 0.02)

    def forward(self, num, cat):
        toks = [num.unsqueeze(-1) * self.scale + self.shift]
        toks.append(torch.stack([e(cat[:, i]) for i, e in enumerate(self.cats)], 1))
        return torch.cat([self.cls.expand(num.shape[0], -1, -1)] + toks, 1)


class GatedFF(nn.Module):
    def __init__(self, d, mult=2):
        super().__init__()
        self.up = nn.Linear(d, 2 * mult * d)
        self.down = nn.Linear(mult * d, d)
        self.act = nn.GELU(approximate="tanh")

    def forward(self, x):
        v, g = self.up(x).chunk(2, -1)
        return self.down(v * self.act(g))


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1 = nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.n2 = nn.LayerNorm(d)
        self.ff = GatedFF(d)

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class CreditModel(nn.Module):
    def __init__(self, d=16, depth=2, heads=2):
        super().__init__()
        self.tok = FeatureTokens(d)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(depth))
        self.out = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, num, cat):
        x = self.tok(num, cat)
        for l in self.layers:
            x = l(x)
        return self.out(x[:, 0]).squeeze(-1)


def applicants(n, seed):
    g = torch.Generator().manual_seed(seed)
    num = torch.randn(n, NUM, generator=g)
    cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in CATS], 1)
    risk = num[:, 0] - num[:, 1] + 0.5 * cat[:, 2]
    return num, cat, (risk > 1).float()


def main(steps=12):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = CreditModel().to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.5)).to(dev)
    torch_xla.sync()
    for step in range(steps):
        num, cat, y = (t.to(dev) for t in applicants(16, step))
        loss = bce(model(num, cat), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 6 == 5:
            xm.master_print(f"step {step} bce {loss.item():.4f}")


if __name__ == "__main__":
    main()
