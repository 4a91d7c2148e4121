"""Mixture-of-experts regression of tabular data (house energy load), top-1 switch routing."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(d_in=12, d_model=32, d_ff=64, n_experts=4, n_layers=1, batch=192, steps=18, lr=3e-3, aux=0.01)


class Experts(nn.Module):
    def __init__(self, n, d, h):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(n, d, h) / math.sqrt(d))
        self.b1 = nn.Parameter(torch.zeros(n, 1, h))
        self.w2 = nn.Parameter(torch.randn(n, h, d) / math.sqrt(h))
        self.b2 = nn.Parameter(torch.zeros(n, 1, d))

    def forward(self, x):  # (experts, slots, d)
        h = F.gelu(torch.baddbmm(self.b1, x, self.w1))
        return torch.baddbmm(self.b2, h, self.w2)


class SwitchLayer(nn.Module):
    def __init__(self, d, h, n_experts, jitter=0.05):
        super().__init__()
        self.n_experts = n_experts
        self.jitter = jitter
        self.norm = nn.LayerNorm(d)
        self.router = nn.Linear(d, n_experts, bias=False)
        self.experts = Experts(n_experts, d, h)

    def route(self, x):
        if self.training and self.jitter > 0:
            x = x * torch.empty_like(x).uniform_(1 - self.jitter, 1 + self.jitter)
        probs = self.router(x).softmax(-1)
        gate, choice = probs.max(-1)
        onehot = F.one_hot(choice, self.n_experts).to(x.dtype)
        balance = self.n_experts * (onehot.mean(0) * probs.mean(0)).sum()
        return gate, onehot, balance

    def forward(self, x):
        y = self.norm(x)
        gate, onehot, balance = self.route(y)
        load = onehot.sum(0)
        capacity = int(load.max().item())
        slot = ((onehot.cumsum(0) - 1) * onehot).sum(-1)
        slots = torch.arange(capacity, device=x.device, dtype=slot.dtype)
        place = (slot.unsqueeze(-1) == slots).to(x.dtype)
        dispatch = onehot.unsqueeze(-1) * place.unsqueeze(1)  # tokens, experts, slots
        inp = torch.einsum("tec,td->ecd", dispatch, y)
        out = torch.einsum("tec,ecd->td", dispatch, self.experts(inp))
        return x + gate.unsqueeze(-1) * out, balance


class EnergyNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Linear(c["d_in"], c["d_model"])
        self.layers = nn.ModuleList(
            SwitchLayer(c["d_model"], c["d_ff"], c["n_experts"]) for _ in range(c["n_layers"]))
        self.norm = nn.LayerNorm(c["d_model"])
        self.head = nn.Linear(c["d_model"], 1)

    def forward(self, x):
        x = self.embed(x)
        aux = 0.0
        for layer in self.layers:
            x, balance = layer(x)
            aux = aux + balance
        return self.head(self.norm(x)).squeeze(-1), aux


def make_data(n, d, gen):
    centers = torch.randn(5, d, generator=gen) * 1.5
    which = torch.randint(0, 5, (n,), generator=gen)
    x = centers[which] + torch.randn(n, d, generator=gen)
    w = torch.randn(5, d, generator=gen)
    y = (x * w[which]).sum(-1) / math.sqrt(d) + torch.sin(2 * x[:, 0])
    return x, (y - y.mean()) / y.std()


def cosine(step, total, base, warm=5):
    if step < warm:
        return base * (step + 1) / warm
    return base * 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))


def main():
    c = CFG
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    device = torch_xla.device()
    x_all, y_all = make_data(4096, c["d_in"], gen)
    model = EnergyNet(c).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=c["lr"], weight_decay=0.01)
    model.train()
    order = torch.randperm(len(x_all), generator=gen)
    for step in range(c["steps"]):
        idx = order[step * c["batch"]:(step + 1) * c["batch"]]
        xb, yb = x_all[idx].to(device), y_all[idx].to(device)
        for g in opt.param_groups:
            g["lr"] = cosine(step, c["steps"], c["lr"])
        pred, aux = model(xb)
        mse = F.mse_loss(pred, yb)
        loss = mse + c["aux"] * aux
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        xm.mark_step()
        if step % 3 == 2:
            print(f"[{step + 1}/{c['steps']}] mse {mse.item():.4f} balance {aux.item():.3f}")


if __name__ == "__main__":
    main()
