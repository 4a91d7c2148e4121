"""Bird-call recognition on log-mel patches: patch projection, one pre-norm attention block,
attention pooling over time, label-smoothed cross entropy, SGD with Nesterov momentum."""
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
FRAMES, MELS, DIM, HEADS, SPECIES, BATCH = 10, 12, 16, 2, 7, 4
SMOOTHING = 0.1


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, pad):
        scale = math.sqrt(x.shape[-1] // self.heads)
        q, k, v = (y.unflatten(-1, (self.heads, -1)) for y in self.qkv(x).chunk(3, dim=-1))
        scores = torch.einsum("bthc,bshc->bhts", q / scale, k)
        scores = scores.masked_fill(pad[:, None, None, :], -1e4)
        out = torch.einsum("bhts,bshc->bthc", scores.softmax(-1), v)
        return self.proj(out.flatten(2))


class AttentivePool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, x, pad):
        w = self.score(x).squeeze(-1).masked_fill(pad, -1e4)
        w = torch.softmax(w, dim=-1)
        return torch.einsum("bt,btd->bd", w, x)


class BirdNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(MELS, DIM)
        self.n1 = nn.LayerNorm(DIM)
        self.attn = Attention(DIM, HEADS)
        self.n2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(DIM, DIM)
        self.pool = AttentivePool(DIM)
        self.head = nn.Linear(DIM, SPECIES)

    def forward(self, mel, pad):
        x = self.inp(mel)
        x = x + self.attn(self.n1(x), pad)
        value, gate = self.up(self.n2(x)).chunk(2, dim=-1)
        x = x + self.down(value * torch.sigmoid(gate))
        return self.head(self.pool(x, pad))


def loss_fn(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=SMOOTHING)


def pending(net, opt, extra):
    out = list(extra)
    for p in net.parameters():
        out += [p.data, p.grad, opt.state[p]["momentum_buffer"]]
    return out


def main(target):
    torch.manual_seed(8)
    dev = torch_xla.device()
    net = BirdNet().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    gen = torch.Generator().manual_seed(4)
    torch_xla.sync()
    for step in range(4):
        mel = torch.randn(BATCH, FRAMES, MELS, generator=gen).to(dev)
        length = torch.randint(4, FRAMES + 1, (BATCH, 1), generator=gen)
        pad = (torch.arange(FRAMES)[None, :] >= length).to(dev)
        species = torch.randint(0, SPECIES, (BATCH,), generator=gen).to(dev)
        opt.zero_grad()
        loss = loss_fn(net(mel, pad), species)
        loss.backward()
        opt.step()
        if step == 2:
            with open(os.path.join(HERE, target), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pending(net, opt, [loss])))
        torch_xla.sync()
        print(step, loss.item(), sum(p.abs().sum().item() for p in net.parameters()))


if __name__ == "__main__":
    main("b.hlo")
