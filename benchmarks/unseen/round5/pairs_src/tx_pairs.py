"""python tx_pairs.py NAME ...  -> ../pairs/NAME_{a,b}.hlo (torch_xla, before optimization).

Pairs with source lines are run with XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1, sharded ones with
CPU_NUM_DEVICES=8 (see make_pairs.sh)."""
import math
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OUT = pathlib.Path(__file__).resolve().parent.parent / "pairs"
NAME, A = None, True


def dump(tensors):
    text = torch_xla._XLAC._get_xla_tensors_hlo(list(tensors))
    (OUT / f"{NAME}_{'a' if A else 'b'}.hlo").write_text(text)


def inputs(*shapes, device):
    out = [torch.randn(*s).to(device) for s in shapes]
    torch_xla.sync()
    return out


class EncoderBlock(nn.Module):
    def __init__(self, d=32, h=4, eps=1e-5, att_dim=-1, keep=False):
        super().__init__()
        self.h, self.att_dim, self.keep = h, att_dim, keep
        self.n1, self.n2 = nn.LayerNorm(d, eps=eps), nn.LayerNorm(d, eps=eps)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        w = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.h), dim=self.att_dim)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, d)), w

    def forward(self, x):
        y, w = self.attention(self.n1(x))
        x = x + y
        x = x + self.down(F.gelu(self.up(self.n2(x))))
        return (x, w) if self.keep else (x, None)


def encoder_pair(**kw):
    dev = torch_xla.device()
    net = EncoderBlock(**kw).to(dev)
    x, y = inputs((4, 16, 32), (4, 16, 32), device=dev)
    out, w = net(x)
    loss = F.mse_loss(out, y)
    loss.backward()
    grads = [p.grad for p in net.parameters()]
    return [loss] + grads + ([w] if w is not None else [])


def q01():
    dump(encoder_pair(att_dim=-1 if A else -2))


def q03():
    dump(encoder_pair(eps=1e-5 if A else 1e-6))


def q15():
    dump(encoder_pair(keep=not A))


def q05():
    """MLP classifier, full Adam step."""
    dev = torch_xla.device()
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(),
                        nn.Linear(32, 5)).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    x, = inputs((32, 20), device=dev)
    y = torch.randint(5, (32,)).to(dev)
    for _ in range(2):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y, reduction="mean" if A else "sum")
        loss.backward()
        opt.step()
        if _ == 0:
            torch_xla.sync()
    state = [s for p in net.parameters() for s in (p, opt.state[p]["exp_avg"],
                                                   opt.state[p]["exp_avg_sq"])]
    dump([loss] + state)


class Tower(nn.Module):
    def __init__(self, n_in, act):
        super().__init__()
        self.first, self.act, self.second = nn.Linear(n_in, 24), act, nn.Linear(24, 8)

    def forward(self, x):
        return F.normalize(self.second(self.act(self.first(x))), dim=-1)


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = Tower(12, nn.Tanh()), Tower(18, nn.Sigmoid())

    def forward(self, u, i, target):
        logits = self.user(u) @ self.item(i).t() / 0.07
        return logits, F.cross_entropy(logits, target)


def build_projection(n_in, act):
    return nn.Sequential(nn.Linear(n_in, 24), act, nn.Linear(24, 8))


class PairScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.project_item = build_projection(18, nn.Sigmoid())
        self.project_user = build_projection(12, nn.Tanh())

    def unit(self, net, x):
        return F.normalize(net(x), dim=-1)

    def forward(self, users, items, labels):
        i = self.unit(self.project_item, items)
        u = self.unit(self.project_user, users)
        scores = torch.matmul(u, i.t()) / 0.07
        return scores, F.cross_entropy(scores, labels)


def q07():
    """Contrastive retrieval, written twice."""
    dev = torch_xla.device()
    net = (Retrieval() if A else PairScorer()).to(dev)
    if A:
        u, i = inputs((16, 12), (16, 18), device=dev)
    else:
        i, u = inputs((16, 18), (16, 12), device=dev)
    logits, loss = net(u, i, torch.arange(16).to(dev))
    loss.backward()
    lins = ([net.user.first, net.user.second, net.item.first, net.item.second] if A else
            [net.project_user[0], net.project_user[2], net.project_item[0], net.project_item[2]])
    dump([loss, logits] + [m.weight.grad for m in lins])


def q09():
    """SPMD: the input is cut along the batch or along the features."""
    import numpy as np
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr
    xr.use_spmd()
    dev = torch_xla.device()
    n = xr.global_runtime_device_count()
    mesh = xs.Mesh(np.arange(n), (n // 2, 2), ("data", "model"))
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(dev)
    xs.mark_sharding(net[0].weight, mesh, ("model", None))
    xs.mark_sharding(net[2].weight, mesh, (None, "model"))
    x, y = inputs((32, 64), (32, 64), device=dev)
    xs.mark_sharding(x, mesh, ("data", None))
    h = net[1](net[0](x))
    xs.mark_sharding(h, mesh, ("data", "model") if A else ("data", None))
    loss = F.mse_loss(net[2](h), y)
    loss.backward()
    dump([loss] + [p.grad for p in net.parameters()])


class ConvNet(nn.Module):
    def __init__(self, dilation=1, padding=1):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1)
        self.b1 = nn.BatchNorm2d(16)
        self.c2 = nn.Conv2d(16, 16, 3, padding=padding, dilation=dilation)
        self.b2 = nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)) + x)
        x = F.max_pool2d(x, 2)
        return self.head(x.mean((2, 3)))


def q11():
    dev = torch_xla.device()
    net = ConvNet(*((1, 1) if A else (2, 2))).to(dev)
    x, = inputs((4, 3, 16, 16), device=dev)
    y = torch.randint(10, (4,)).to(dev)
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    dump([loss] + [p.grad for p in net.parameters()] + [net.b1.running_mean, net.b2.running_var])


def q13():
    """Gated recurrent cell, unrolled; the reset gate meets another tensor."""
    dev = torch_xla.device()
    wx, wh = nn.Linear(16, 72).to(dev), nn.Linear(24, 72).to(dev)
    x, h = inputs((8, 5, 16), (8, 24), device=dev)
    for t in range(5):
        gx, gh = wx(x[:, t]), wh(h)
        r = torch.sigmoid(gx[:, :24] + gh[:, :24])
        z = torch.sigmoid(gx[:, 24:48] + gh[:, 24:48])
        gate = r if (A or t != 3) else z
        n = torch.tanh(gx[:, 48:] + gate * gh[:, 48:])
        h = (1 - z) * n + z * h
    dump([h, h.pow(2).mean()])


def q17():
    """Gradient exchange of a small model: the order of two reductions."""
    dev = torch_xla.device()
    net = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 4)).to(dev)
    x, y = inputs((16, 24), (16, 4), device=dev)
    F.mse_loss(net(x), y).backward()
    grads = [p.grad for p in net.parameters()]
    groups = [[0, 1], [2, 3]]
    parts = [grads[:2], grads[2:]]
    for part in (parts if A else parts[::-1]):
        xm.all_reduce(xm.REDUCE_SUM, part, scale=0.5, groups=groups)
    dump(grads)


def q16():
    """Regression step with SGD, momentum, decay and gradient clipping."""
    dev = torch_xla.device()
    net = nn.Sequential(nn.Linear(20, 64), nn.SiLU(), nn.LayerNorm(64), nn.Linear(64, 3)).to(dev)
    decay = [net[0].weight, net[3].weight]
    rest = [p for p in net.parameters() if all(p is not d for d in decay)]
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 0.02 if A else 0.0},
                           {"params": rest, "weight_decay": 0.0}], lr=0.03, momentum=0.9)
    x, y = inputs((32, 20), (32, 3), device=dev)
    for i in range(2):
        opt.zero_grad()
        loss = F.huber_loss(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if i == 0:
            torch_xla.sync()
    dump([loss] + [t for p in net.parameters()
                   for t in (p, opt.state[p]["momentum_buffer"])])


for NAME in sys.argv[1:]:
    for A in (True, False):
        torch.manual_seed(0)
        globals()[NAME]()
        torch_xla.sync()
