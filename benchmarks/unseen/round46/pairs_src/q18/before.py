"""Fault diagnosis of freight wagons from sparse event codes: a factorization machine part plus a
small mixture of experts over the pooled embeddings (two tasks: bearing fault, brake fault)."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
CODES, FIELDS, EMB, DENSE, HIDDEN, EXPERTS, BATCH = 30, 5, 6, 4, 10, 2, 8


class FactorizationMachine(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Embedding(CODES, 1)
        self.factors = nn.Embedding(CODES, EMB)

    def forward(self, codes, weight):
        v = self.factors(codes) * weight.unsqueeze(-1)
        first = (self.linear(codes).squeeze(-1) * weight).sum(1)
        second = 0.5 * (v.sum(1).square() - v.square().sum(1))
        return first, second, v


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(FIELDS * EMB + DENSE, HIDDEN)
        self.l2 = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        return F.gelu(self.l2(F.gelu(self.l1(x))))


class WagonNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fm = FactorizationMachine()
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.gates = nn.ModuleList(nn.Linear(DENSE, EXPERTS) for _ in range(2))
        self.towers = nn.ModuleList(nn.Linear(HIDDEN + EMB, 1) for _ in range(2))

    def forward(self, codes, weight, dense):
        first, second, v = self.fm(codes, weight)
        x = torch.cat([v.flatten(1), dense], dim=1)
        bank = torch.stack([e(x) for e in self.experts], dim=1)
        logits = []
        for gate, tower in zip(self.gates, self.towers):
            g = torch.softmax(gate(dense), dim=-1)
            mixed = (g.unsqueeze(-1) * bank).sum(1)
            logits.append(tower(torch.cat([mixed, second], dim=1)).squeeze(1) + first)
        return torch.stack(logits, dim=1)


def loss_fn(logits, target, known):
    per = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (per * known).sum() / known.sum()


def clip(params, max_norm):
    return nn.utils.clip_grad_norm_(params, max_norm, foreach=False)


def pending(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        out += [p.data, p.grad, opt.state[p]["sum"]]
    return out


def main(target):
    torch.manual_seed(17)
    dev = torch_xla.device()
    net = WagonNet().to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.03, eps=1e-8, foreach=False)
    gen = torch.Generator().manual_seed(5)
    torch_xla.sync()
    for step in range(3):
        codes = torch.randint(0, CODES, (BATCH, FIELDS), generator=gen).to(dev)
        weight = torch.rand(BATCH, FIELDS, generator=gen).to(dev)
        dense = torch.randn(BATCH, DENSE, generator=gen).to(dev)
        fault = (torch.rand(BATCH, 2, generator=gen) < 0.3).float().to(dev)
        known = (torch.rand(BATCH, 2, generator=gen) < 0.8).float().to(dev)
        opt.zero_grad()
        loss = loss_fn(net(codes, weight, dense), fault, known)
        loss.backward()
        norm = clip(net.parameters(), 0.5)
        opt.step()
        if step == 2:
            with open(os.path.join(HERE, target), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(net, opt, [loss, norm])))
        torch_xla.sync()
        print(step, loss.item(), norm.item())


if __name__ == "__main__":
    main("a.hlo")
