"""Pairs q01..q10, made by torch_xla._XLAC._get_xla_tensors_hlo. Usage: python torch_pairs.py qNN a|b  (prints the HLO text).

Run each variant in its own process. q01 q04 q06 q08 q09 q10 with XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1 (see make.sh).
The variants of a pair differ only where V is read.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NAME, V = sys.argv[1], sys.argv[2]
A = V == "a"
dev = torch_xla.device()
torch.manual_seed(0)


def encoder_layer(x, p, eps1, eps2, heads=4):
    b, t, w = x.shape
    h = F.layer_norm(x, (w,), p["g1"], p["b1"], eps1)
    q, k, v = (z.view(b, t, heads, -1).transpose(1, 2) for z in (h @ p["qkv"]).chunk(3, -1))
    a = (q @ k.transpose(-1, -2)) * p["scale"]
    h = (a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, w)
    x = x + h @ p["out"]
    h = F.layer_norm(x, (w,), p["g2"], p["b2"], eps2)
    return x + F.gelu(h @ p["up"]) @ p["down"]


def encoder_params(w):
    shapes = dict(g1=(w,), b1=(w,), qkv=(w, 3 * w), scale=(1,), out=(w, w), g2=(w,), b2=(w,), up=(w, 4 * w), down=(4 * w, w))
    return {k: torch.randn(s).to(dev).requires_grad_(k != "scale") for k, s in shapes.items()}


def q01():  # the second layer norm has another epsilon; training graph of one layer
    p, x = encoder_params(32), torch.randn(2, 8, 32).to(dev)
    y = encoder_layer(x, p, 1e-5, 1e-5 if A else 1e-6)
    loss = y.square().mean()
    loss.backward()
    return [loss] + [v.grad for v in p.values() if v.grad is not None]


def q02():  # mask by tril: diagonal 0 or -1
    q, k, v = (torch.randn(2, 4, 12, 8).to(dev) for _ in range(3))
    mask = torch.ones(12, 12, device=dev).tril(0 if A else -1)
    s = (q @ k.transpose(-1, -2)) / 8 ** 0.5
    s = s * mask - 1e9 * (1 - mask)
    return [s.softmax(-1) @ v]


def q03():  # the activation of the second of three layers: exact or tanh gelu
    x = torch.randn(16, 24).to(dev)
    ws = [torch.randn(24, 24).to(dev) for _ in range(3)]
    for i, w in enumerate(ws):
        x = F.gelu(x @ w, approximate="tanh" if (i == 1 and not A) else "none")
    return [x]


def q04():  # dilation 1 (padding 1) or 2 (padding 2) in the third convolution
    x = torch.randn(2, 4, 16, 16).to(dev)
    ws = [torch.randn(4, 4, 3, 3).to(dev).requires_grad_() for _ in range(4)]
    for i, w in enumerate(ws):
        d = 2 if (i == 2 and not A) else 1
        x = torch.relu(F.conv2d(x, w, padding=d, dilation=d)) + x
    loss = x.mean()
    loss.backward()
    return [loss] + [w.grad for w in ws]


def q05():  # one of four matrix products in bfloat16
    x = torch.randn(8, 32).to(dev)
    for i in range(4):
        w = torch.randn(32, 32).to(dev)
        if i == 2 and not A:
            x = torch.tanh((x.bfloat16() @ w.bfloat16()).float())
        else:
            x = torch.tanh(x @ w)
    return [x]


def q06():  # momentum of the second of three batch norms, 0.1 or 0.05
    x = torch.randn(8, 6, 10).to(dev)
    net = nn.Sequential(nn.BatchNorm1d(6), nn.ReLU(), nn.BatchNorm1d(6, momentum=0.1 if A else 0.05), nn.ReLU(), nn.BatchNorm1d(6)).to(dev)
    torch_xla.sync()
    y = net(x)
    return [y] + [m.running_mean for m in net if isinstance(m, nn.BatchNorm1d)] + [m.running_var for m in net if isinstance(m, nn.BatchNorm1d)]


def q07():  # softmax over the last or the last but one dimension of a square score matrix
    q, k, v = (torch.randn(3, 16, 8).to(dev) for _ in range(3))
    s = q @ k.transpose(1, 2)
    first = s.softmax(-1) @ v
    second = (first @ k.transpose(1, 2)).softmax(-1 if A else -2) @ v
    return [first + second]


def q08():  # window shift of a Swin block: (-2, -2) or (-2, -1)
    x = torch.randn(2, 8, 8, 12).to(dev)
    w = torch.randn(12, 12).to(dev)
    h = torch.roll(x, (-2, -2 if A else -1), dims=(1, 2))
    h = h.view(2, 2, 4, 2, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 12)
    h = ((h @ h.transpose(1, 2)).softmax(-1) @ h) @ w
    h = h.view(2, 2, 2, 4, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 8, 12)
    return [x + torch.roll(h, (2, 2), dims=(1, 2))]


def q09():  # the same: two independent towers, written in the other order (the outputs are asked for in the same order)
    u, i = torch.randn(8, 16).to(dev), torch.randn(8, 20).to(dev)
    wu, wi = torch.randn(16, 12).to(dev), torch.randn(20, 12).to(dev)

    def user():
        return F.normalize(torch.relu(u @ wu), dim=1)

    def item():
        return F.normalize(torch.sigmoid(i @ wi), dim=1)

    if A:
        zu = user()
        zi = item()
    else:
        zi = item()
        zu = user()
    score = (zu * zi).sum(1)
    return [score, zu, zi]


def q10():  # SGD with momentum: weight decay in the gradient (coupled) or on the weight (decoupled), third parameter only
    out = []
    for n in range(4):
        p, g, buf = (torch.randn(6, 6).to(dev) for _ in range(3))
        coupled = A or n != 2
        d = g + 0.01 * p if coupled else g
        buf = 0.9 * buf + d
        new = p - 0.1 * buf if coupled else p - 0.1 * buf - 0.1 * 0.01 * p
        out += [new, buf]
    return out


outs = globals()[NAME]()
sys.stdout.write(torch_xla._XLAC._get_xla_tensors_hlo(outs))
