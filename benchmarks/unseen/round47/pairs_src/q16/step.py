"""Metric learning on leaf outlines (plant species retrieval) with a cross-batch memory.

A GRU cell reads the outline point by point; the multi-similarity loss compares the
batch with itself and with embeddings kept from earlier batches. Writes the graphs of
two consecutive steps of one run.
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = {3: "a.hlo", 4: "b.hlo"}


class Outline(nn.Module):
    def __init__(self, hidden=10, dim=8):
        super().__init__()
        self.inp = nn.Linear(2, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, dim, bias=False)

    def forward(self, points):
        h = points.new_zeros(points.shape[0], self.cell.hidden_size)
        for t in range(points.shape[1]):
            h = self.cell(torch.tanh(self.inp(points[:, t])), h)
        return F.normalize(self.head(h), dim=-1)


class Memory:
    def __init__(self, size):
        self.size = size
        self.feats = None
        self.labels = None

    def push(self, feats, labels):
        feats = feats.detach()
        if self.feats is None:
            self.feats, self.labels = feats, labels
            return
        drop = max(0, self.feats.shape[0] + feats.shape[0] - self.size)
        self.feats = torch.cat([self.feats, feats])[drop:]
        self.labels = torch.cat([self.labels, labels])[drop:]


def multi_similarity(q, q_lab, k, k_lab, alpha=2.0, beta=20.0, base=0.5):
    sim = q @ k.t()
    same = (q_lab[:, None] == k_lab[None, :]).float()
    pos = torch.log1p((torch.exp(-alpha * (sim - base)) * same).sum(1)) / alpha
    neg = torch.log1p((torch.exp(beta * (sim - base)) * (1 - same)).sum(1)) / beta
    return (pos + neg).mean()


def train_step(net, opt, memory, points, labels):
    opt.zero_grad()
    emb = net(points)
    loss = multi_similarity(emb, labels, emb, labels)
    if memory.feats is not None:
        loss = loss + 0.5 * multi_similarity(emb, labels, memory.feats, memory.labels)
    loss.backward()
    opt.step()
    memory.push(emb, labels)
    return loss


def live_tensors(net, opt, memory, loss):
    out = [loss]
    for p in net.parameters():
        out += [p, p.grad]
    for p in net.parameters():
        out.append(opt.state[p]["sum"])
    return out + [memory.feats, memory.labels]


def main():
    torch.manual_seed(16)
    dev = xm.xla_device()
    net = Outline().to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    memory = Memory(size=28)
    for it in range(6):
        points = torch.randn(8, 5, 2).to(dev)
        labels = torch.randint(0, 4, (8,)).to(dev)
        loss = train_step(net, opt, memory, points, labels)
        if it in STEPS:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(net, opt, memory, loss))
            with open(os.path.join(HERE, STEPS[it]), "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, loss.item(), tuple(memory.feats.shape))


if __name__ == "__main__":
    main()
