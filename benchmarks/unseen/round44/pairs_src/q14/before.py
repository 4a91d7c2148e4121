"""Mixture-of-experts tagger for machine event logs: two experts per event, mixed by the router.

usage: before.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, N_TAG, DIM, HID = 20, 5, 8, 10
N_EXPERT, TOP_K = 3, 2


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(DIM, HID)
        self.down = nn.Linear(HID, DIM)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, N_EXPERT, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(N_EXPERT))

    def forward(self, x):
        logits = self.router(x)
        probs = torch.softmax(logits, dim=-1)
        top_p, top_i = torch.topk(probs, TOP_K, dim=-1)
        top_p = top_p / top_p.sum(dim=-1, keepdim=True)
        gate = torch.zeros_like(probs).scatter(-1, top_i, top_p)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            out = out + gate[:, e : e + 1] * expert(x)
        z_loss = torch.logsumexp(logits, dim=-1).pow(2).mean()
        return out, z_loss


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.gap = nn.Linear(1, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.moe = MoE()
        self.head = nn.Linear(DIM, N_TAG)

    def forward(self, ids, gaps):
        x = self.embed(ids) + self.gap(torch.log1p(gaps).unsqueeze(-1))
        y, z_loss = self.moe(self.norm(x))
        return self.head(x + y), z_loss


def live_tensors(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["square_avg"]]
    return out


def main(path, steps=3):
    torch.manual_seed(21)
    dev = torch_xla.device()
    model = Tagger().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(4)
    for step in range(steps):
        ids = torch.randint(0, VOCAB, (12,), generator=g).to(dev)
        gaps = (5 * torch.rand(12, generator=g)).to(dev)
        tags = torch.randint(0, N_TAG, (12,), generator=g).to(dev)
        opt.zero_grad()
        logits, z_loss = model(ids, gaps)
        ce = F.cross_entropy(logits, tags)
        loss = ce + 1e-3 * z_loss
        loss.backward()
        opt.step()
        if step == steps - 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(model, opt, [loss, ce]))
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, loss.item(), ce.item(), sum(p.abs().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main(sys.argv[1])
