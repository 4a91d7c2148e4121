"""Discrete-time survival of machine bearings: attention over the sensor
history, hazards per interval, trained with Lion."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)

    def forward(self, x, mask):
        b, t, w = x.shape
        q = self.split(self.q(x)) * (w // self.heads) ** -0.5
        k = self.split(self.k(x))
        v = self.split(self.v(x))
        score = torch.matmul(q, k.transpose(-1, -2))
        score = torch.where(mask[:, None, None, :], score, -1e9)
        y = torch.matmul(F.softmax(score, dim=-1), v)
        return self.o(y.transpose(1, 2).reshape(b, t, w))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Hazard(nn.Module):
    def __init__(self, sensors=5, width=16, heads=2, bins=6):
        super().__init__()
        self.inp = nn.Linear(sensors, width)
        self.att = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(width, width)
        self.head = nn.Linear(width, bins)

    def forward(self, x, mask):
        h = torch.tanh(self.inp(x))
        h = h + self.att(self.norm(h), mask)
        h = h + self.down(F.glu(self.up(h), dim=-1))
        m = mask.to(h.dtype)
        pooled = torch.einsum("btw,bt->bw", h, m) / m.sum(1, keepdim=True)
        return self.head(pooled)


def survival_nll(logits, interval, event):
    bins = torch.arange(logits.shape[1], device=logits.device)
    at_risk = bins[None, :] <= interval[:, None]
    log_survive = torch.where(at_risk, F.logsigmoid(-logits), 0.0).sum(1)
    # log h = log(1 - h) + logit
    hit = logits.gather(1, interval[:, None]).squeeze(1)
    return -(log_survive + event * hit).mean()


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, wd=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                st = self.state[p]
                if not st:
                    st["m"] = torch.zeros_like(p)
                m = st["m"]
                update = torch.lerp(p.grad, m, b1).sign()
                p.sub_(group["lr"] * (update + group["wd"] * p))
                m.lerp_(p.grad, 1 - b2)


def train_step(model, opt, x, mask, interval, event):
    opt.zero_grad(set_to_none=True)
    loss = survival_nll(model(x, mask), interval, event)
    loss.backward()
    opt.step()
    return loss.detach()


def pending(model, opt, loss):
    params = list(model.parameters())
    out = params + [p.grad for p in params] + [opt.state[p]["m"] for p in params]
    return out + [loss]


def batch(seed, dev, n=6, t=7):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, t, 5, generator=g)
    length = torch.randint(3, t + 1, (n,), generator=g)
    mask = torch.arange(t)[None, :] < length[:, None]
    interval = torch.randint(0, 6, (n,), generator=g)
    event = torch.randint(0, 2, (n,), generator=g).float()
    return [a.to(dev) for a in (x, mask, interval, event)]


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    model = Hazard().to(dev)
    opt = Lion(model.parameters())
    for step in range(6):
        data = batch(step, dev)
        torch_xla.sync()
        loss = train_step(model, opt, *data)
        if step == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(model, opt, loss))
            with open(sys.argv[1], "w") as f:
                f.write(text)
        torch_xla.sync()
        total = sum(p.detach().double().abs().sum() for p in model.parameters())
        print(step, round(loss.item(), 6), round(total.item(), 5))


if __name__ == "__main__":
    main()
