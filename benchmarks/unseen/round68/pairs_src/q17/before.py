"""Feature-tokenizer transformer for claim severity (gamma deviance), motor portfolio."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

N_NUM = 6
CARDS = (5, 11, 3)
DIM = 16
HEADS = 2


class FeatureTokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(N_NUM, DIM))
        self.bias = nn.Parameter(torch.empty(N_NUM + len(CARDS), DIM))
        self.table = nn.Embedding(sum(CARDS), DIM)
        self.cls = nn.Parameter(torch.empty(1, 1, DIM))
        for p in (self.weight, self.bias, self.cls):
            nn.init.uniform_(p, -1 / math.sqrt(DIM), 1 / math.sqrt(DIM))
        offs = [0]
        for c in CARDS[:-1]:
            offs.append(offs[-1] + c)
        self.register_buffer("offsets", torch.tensor(offs))

    def forward(self, x_num, x_cat):
        num = x_num.unsqueeze(-1) * self.weight
        cat = self.table(x_cat + self.offsets)
        tok = torch.cat([num, cat], 1) + self.bias
        return torch.cat([self.cls.expand(tok.size(0), -1, -1), tok], 1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.ln2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS), -1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, n, DIM))
        u, g = self.up(self.ln2(x)).chunk(2, -1)
        return x + self.down(u * F.relu(g))


class SeverityModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = FeatureTokenizer()
        self.block = Block()
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, 1)

    def forward(self, x_num, x_cat):
        h = self.block(self.tok(x_num, x_cat))
        return self.head(F.relu(self.norm(h[:, 0]))).squeeze(-1)


def gamma_deviance(log_mu, y, exposure):
    dev = 2 * (y * torch.exp(-log_mu) + log_mu - torch.log(y) - 1)
    return (dev * exposure).sum() / exposure.sum()


def make_optimizer(model, lr=1e-3, weight_decay=1e-2):
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)


def portfolio(n, g):
    x_num = torch.randn(n, N_NUM, generator=g)
    x_cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in CARDS], 1)
    y = torch.exp(0.3 * x_num[:, 0] + 0.2 * torch.randn(n, generator=g)) + 0.05
    return x_num, x_cat, y, torch.rand(n, generator=g) * 0.9 + 0.1


def main(steps=4, batch=8):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    device = xm.xla_device()
    model = SeverityModel().to(device)
    opt = make_optimizer(model)
    xm.mark_step()
    for i in range(steps):
        x_num, x_cat, y, w = (t.to(device) for t in portfolio(batch, g))
        loss = gamma_deviance(model(x_num, x_cat), y, w)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(i, loss.item(), met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
