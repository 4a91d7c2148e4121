"""Guided DDIM sampling of short melodies (16 frames, 4 features, chord as condition).

One call draws a melody from noise in a few unrolled denoising steps, with
classifier-free guidance. The weights are random here, it is about the program.
"""
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def time_code(t, dim, like):
    freq = torch.exp(-math.log(1000.0) * torch.arange(dim // 2, device=like.device) / (dim // 2))
    arg = t * freq
    return torch.cat([arg.sin(), arg.cos()]).expand(like.shape[0], dim)


class Denoiser(nn.Module):
    def __init__(self, feats=4, width=12, conds=6, heads=2):
        super().__init__()
        self.width = width
        self.heads = heads
        self.inp = nn.Linear(feats, width)
        self.cond = nn.Embedding(conds + 1, width)
        self.time = nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.ff1 = nn.Linear(width, 2 * width)
        self.ff2 = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, feats)

    def attend(self, h):
        b, n, c = h.shape
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, c // self.heads).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        w = (q @ k.transpose(-1, -2)) / math.sqrt(c // self.heads)
        h = w.softmax(dim=-1) @ v
        return self.out(h.transpose(1, 2).reshape(b, n, c))

    def forward(self, x, t, cond):
        h = self.inp(x)
        shift = F.silu(self.time(time_code(t, self.width, x))) + self.cond(cond)
        h = h + shift[:, None, :]
        h = h + self.attend(h)
        h = h + self.ff2(F.silu(self.ff1(h)))
        return self.head(h)


def alpha_bar(t, total=1000):
    return math.cos((t / total + 0.008) / 1.008 * math.pi / 2) ** 2


def guided_noise(net, x, t, chord, null, scale):
    x2 = torch.cat([x, x])
    c2 = torch.cat([chord, null])
    eps_u, eps_c = net(x2, t, c2).chunk(2)
    return eps_u + scale * (eps_c - eps_u)


@torch.no_grad()
def sample(net, noise, chord, steps=(900, 600, 300, 20), scale=3.0):
    x = noise
    null = torch.full_like(chord, net.cond.num_embeddings - 1)
    for i, t in enumerate(steps):
        eps = guided_noise(net, x, t, chord, null, scale)
        a = alpha_bar(t)
        nxt = alpha_bar(steps[i + 1]) if i + 1 < len(steps) else 1.0
        x0 = (x - math.sqrt(1 - a) * eps) / math.sqrt(a)
        x0 = x0.clamp(-3.0, 3.0)
        x = math.sqrt(nxt) * x0 + math.sqrt(1 - nxt) * eps
    return x


def main(path):
    torch.manual_seed(17)
    dev = xm.xla_device()
    net = Denoiser().to(dev).eval()
    xm.mark_step()
    for it in range(2):
        noise = torch.randn(3, 16, 4).to(dev)
        chord = torch.randint(0, 6, (3,)).to(dev)
        melody = sample(net, noise, chord)
        if it == 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo([melody])
            with open(path, "w") as f:
                f.write(text)
        xm.mark_step()
        print(it, melody.abs().mean().item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "b.hlo"))
