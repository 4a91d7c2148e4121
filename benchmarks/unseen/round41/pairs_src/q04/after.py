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

        self.scale = 1.0 / math.sqrt(DIM // HEADS)

    def forward(self, x, y, mask):
        q = self.q(x).unflatten(-1, (HEADS, -1))
        k = self.k(y).unflatten(-1, (HEADS, -1))
        v = self.v(y).unflatten(-1, (HEADS, -1))
        bias = torch.where(mask > 0, 0.0, -1e9)[:, None, None, :]
        att = torch.einsum("bqhd,bkhd->bhqk", q * self.scale, k) + bias
        out = torch.einsum("bhqk,bkhd->bqhd", att.softmax(dim=-1), v)
        return self.o(out.flatten(-2))


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
    logp = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    nll = -logp.gather(1, label[:, None]).squeeze(1)
    return torch.dot(nll, weight / weight.sum())


def energy_loss(pred, target):
    err = (pred - target).abs()
    quad = err.clamp(max=0.5)
    return (0.5 * quad.pow(2) + 0.5 * (err - quad)).mean()


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
