"""Sequence VAE over discrete telemetry events, KL weight annealed over the first steps.

Writes the HLO of two steps of one run: step.py <step> <path> <step> <path>
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, EMB, HID, LAT, T = 20, 8, 12, 4, 4


class EventVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMB)
        self.enc = nn.RNNCell(EMB, HID)
        self.mu = nn.Linear(HID, LAT)
        self.logvar = nn.Linear(HID, LAT)
        self.init = nn.Linear(LAT, HID)
        self.dec = nn.RNNCell(EMB, HID)
        self.out = nn.Linear(HID, VOCAB)

    def forward(self, x, eps):
        e = self.embed(x)
        h = torch.zeros(x.size(0), HID, device=x.device)
        for t in range(T):
            h = self.enc(e[:, t], h)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-6.0, 6.0)
        z = mu + (0.5 * logvar).exp() * eps
        h = torch.tanh(self.init(z))
        logits = []
        inp = torch.zeros_like(e[:, 0])
        for t in range(T):
            h = self.dec(inp, h)
            logits.append(self.out(h))
            inp = e[:, t]
        return torch.stack(logits, 1), mu, logvar


class Annealer:
    """Linear from 0 to 1 over `steps`, then flat."""

    def __init__(self, steps):
        self.steps, self.now = steps, 0

    def __call__(self):
        self.now += 1
        return min(1.0, self.now / self.steps)


def elbo(logits, x, mu, logvar, beta, free_bits=0.02):
    rec = F.cross_entropy(logits.reshape(-1, VOCAB), x.reshape(-1), reduction="sum") / x.size(0)
    kl = -0.5 * (1.0 + logvar - mu.pow(2) - logvar.exp())
    kl = kl.mean(0).clamp(min=free_bits).sum()
    return rec + kl * beta, rec.detach(), kl.detach()


def main(*args):
    wanted = {int(args[i]): args[i + 1] for i in range(0, len(args), 2)}
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(12)
    model = EventVAE().to("xla")
    params = list(model.parameters())
    opt = torch.optim.Adagrad(params, lr=0.02, eps=1e-8)
    for state in opt.state.values():
        state["sum"] = state["sum"].to("xla")
    beta_at = Annealer(5)
    for step in range(1, max(wanted) + 1):
        x = torch.randint(0, VOCAB, (6, T), generator=gen).to("xla")
        eps = torch.randn(6, LAT, generator=gen).to("xla")
        torch_xla.sync()
        beta = beta_at()
        opt.zero_grad()
        logits, mu, logvar = model(x, eps)
        loss, rec, kl = elbo(logits, x, mu, logvar, beta)
        loss.backward()
        opt.step()
        if step in wanted:
            live = [loss.detach(), rec, kl] + params + [opt.state[p]["sum"] for p in params]
            open(wanted[step], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, beta, round(loss.item(), 4), round(kl.item(), 4))


if __name__ == "__main__":
    main(*sys.argv[1:])
