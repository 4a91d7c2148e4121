"""Survival of patients from lab values: feature tokens + attention, Cox partial likelihood, RMSprop.

Run: PJRT_DEVICE=CPU python before.py
"""
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "a.hlo")
LABS, WIDTH, HEADS, BATCH = 7, 12, 3, 16


class FeatureTokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(LABS, WIDTH) * 0.3)
        self.bias = nn.Parameter(torch.zeros(LABS, WIDTH))
        self.missing = nn.Parameter(torch.randn(LABS, WIDTH) * 0.1)
        self.cls = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.1)

    def forward(self, x, observed):
        tokens = x.unsqueeze(-1) * self.weight + self.bias
        tokens = torch.where(observed.unsqueeze(-1), tokens, self.missing)
        return torch.cat([self.cls.expand(x.shape[0], -1, -1), tokens], dim=1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        att = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS), dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, WIDTH))
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.relu(gate) * value)


class SurvivalNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = FeatureTokenizer()
        self.block = Block()
        self.norm = nn.LayerNorm(WIDTH)
        self.hazard = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x, observed):
        h = self.block(self.tokens(x, observed))
        return self.hazard(self.norm(h[:, 0])).squeeze(-1)


def cox_loss(risk, time, event):
    """Negative partial log likelihood (Breslow), averaged over the observed events."""
    at_risk = time.unsqueeze(0) >= time.unsqueeze(1)
    log_denominator = torch.logsumexp(
        risk.unsqueeze(0).expand_as(at_risk).masked_fill(~at_risk, float("-inf")), dim=1
    )
    log_lik = (risk - log_denominator) * event
    return -log_lik.sum() / event.sum().clamp(min=1.0)


def live_tensors(model, opt, loss):
    out = [loss]
    for p in model.parameters():
        out.extend([p, p.grad])
        for key in ("square_avg", "momentum_buffer"):
            if key in opt.state[p]:
                out.append(opt.state[p][key])
    return out


def main():
    torch.manual_seed(19)
    device = torch_xla.device()
    model = SurvivalNet().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(6)
    for step in range(1, 5):
        x = torch.randn(BATCH, LABS, generator=gen).to(device)
        observed = (torch.rand(BATCH, LABS, generator=gen) < 0.8).to(device)
        time = torch.empty(BATCH).exponential_(0.5, generator=gen).to(device)
        event = (torch.rand(BATCH, generator=gen) < 0.6).float().to(device)
        opt.zero_grad()
        loss = cox_loss(model(x, observed), time, event)
        loss.backward()
        opt.step()
        if step == 2:
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, loss)))
        torch_xla.sync()
        print(step, "%.6f" % loss.item())


if __name__ == "__main__":
    main()
