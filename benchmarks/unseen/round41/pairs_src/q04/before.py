"""Set transformer over calorimeter hits: jet flavour plus energy regression.

usage: before.py OUT      writes the pending graph of the third training step
"""
import math
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HITS, FEATS, DIM, HEADS, CLASSES = 10, 4, 16, 4, 3


class MultiheadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM)
        self.k = nn.Linear(DIM, DIM)
        self.v = nn.Linear(DIM, DIM)
        self.o = nn.Linear(DIM, DIM)

    def split(self, x):
        b, n, _ = x.shape
        return x.view(b, n, HEADS, DIM // HEADS).transpose(1, 2)

    def forward(self, x, y, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(y)), self.split(self.v(y))
        att = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(DIM // HEADS)
        att = att.masked_fill(mask[:, None, None, :] == 0, -1e9)
        out = torch.matmul(F.softmax(att, dim=-1), v)
        out = out.transpose(1, 2).reshape(x.shape[0], x.shape[1], DIM)
        return self.o(out)


class SetBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.att = MultiheadAttention()
        self.norm = nn.LayerNorm(DIM)
        self.ff = nn.Linear(DIM, DIM)

    def forward(self, x, mask):
        h = self.norm(x + self.att(x, x, mask))
        return h + F.silu(self.ff(h))


class JetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATS, DIM)
        self.block = SetBlock()
        self.seed = nn.Parameter(torch.randn(1, 1, DIM) * 0.1)
        self.pool = MultiheadAttention()
        self.flavour = nn.Linear(DIM, CLASSES)
        self.energy = nn.Linear(DIM, 1)

    def forward(self, hits, mask):
        h = self.block(F.silu(self.embed(hits)), mask)
        seed = self.seed.expand(hits.shape[0], -1, -1)
        jet = self.pool(seed, h, mask).squeeze(1)
        return self.flavour(jet), self.energy(jet).squeeze(-1)


def flavour_loss(logits, label, weight):
    loss = F.cross_entropy(logits, label, reduction="none")
    return (loss * weight).sum() / weight.sum()


def energy_loss(pred, target):
    return F.huber_loss(pred, target, delta=0.5)


def main(out):
    torch.manual_seed(21)
    device = xm.xla_device()
    net = JetNet().to(device)
    params = list(net.parameters())
    opt = torch.optim.SGD(params, lr=0.01, momentum=0.9)
    for step in range(3):
        hits = torch.randn(6, HITS, FEATS).to(device)
        mask = (torch.arange(HITS)[None] < torch.randint(3, HITS, (6, 1))).float().to(device)
        label = torch.randint(CLASSES, (6,)).to(device)
        weight = (torch.rand(6) + 0.5).to(device)
        energy = torch.randn(6).to(device)
        torch_xla.sync()

        logits, pred = net(hits, mask)
        ce = flavour_loss(logits, label, weight)
        reg = energy_loss(pred, energy)
        loss = ce + 0.3 * reg
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)

        if step == 2:
            live = [loss.detach(), ce.detach(), reg.detach()]
            live += [p.detach() for p in params]
            live += [opt.state[p]["momentum_buffer"] for p in params]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item(), ce.item(), reg.item())


if __name__ == "__main__":
    main(sys.argv[1])
