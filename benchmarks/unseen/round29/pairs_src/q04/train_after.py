"""Tiny decoder-only LM (bias-free, RMSNorm, tied softmax)."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class ModelArgs:
    vocab: int = 30
    dim: int = 32
    n_heads: int = 4
    hidden: int = 64
    n_layers: int = 2
    max_len: int = 16

    @property
    def head_dim(self):
        return self.dim // self.n_heads


def rms_norm(x, gain, eps=1e-6):
    var = (x * x).mean(dim=-1, keepdim=True)
    return gain * (x * torch.rsqrt(var + eps))


def causal_attention(x, p, args, visible):
    b, t, _ = x.shape

    def heads(w):
        return torch.einsum("btd,de->bte", x, w).view(b, t, args.n_heads, args.head_dim)

    v, k, q = heads(p["wv"]), heads(p["wk"]), heads(p["wq"])
    att = torch.einsum("bqhd,bkhd->bhqk", q * args.head_dim**-0.5, k)
    att = torch.where(visible, att, torch.full_like(att, -1e9))
    att = torch.log_softmax(att, -1).exp()
    out = torch.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, t, args.dim)
    return torch.einsum("btd,de->bte", out, p["wo"])


def swiglu_free_ffn(x, p):
    return F.silu(x @ p["w1"]) @ p["w2"]


class Decoder(nn.Module):

    def __init__(self, args):
        super().__init__()
        self.args = args
        d, ff = args.dim, args.hidden
        shapes = {"wq": (d, d), "wk": (d, d), "wv": (d, d), "wo": (d, d), "w1": (d, ff), "w2": (ff, d)}
        embed = torch.randn(args.vocab, d) * 0.1
        position = torch.randn(args.max_len, d) * 0.1
        self.blocks = nn.ModuleList()
        for _ in range(args.n_layers):
            block = nn.ParameterDict({n: nn.Parameter(torch.randn(*s) * 0.05) for n, s in shapes.items()})
            block["ffn_gain"] = nn.Parameter(torch.ones(d))
            block["att_gain"] = nn.Parameter(torch.ones(d))
            self.blocks.append(block)
        self.position = nn.Parameter(position)
        self.embed = nn.Parameter(embed)

    def forward(self, tokens):
        t = tokens.shape[1]
        idx = torch.arange(t, device=tokens.device)
        visible = idx[None, :] <= idx[:, None]
        h = self.position + self.embed[tokens]
        for p in self.blocks:
            h = h + causal_attention(rms_norm(h, p["att_gain"]), p, self.args, visible)
            h = swiglu_free_ffn(rms_norm(h, p["ffn_gain"]), p) + h
        return F.linear(h, self.embed)


def next_token_loss(logits, labels):
    logp = logits.log_softmax(-1)
    picked = logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return -picked.mean()


class HeavyBall:

    def __init__(self, params, lr=0.05, mu=0.9):
        self.params = list(params)
        self.lr, self.mu = lr, mu
        self.vel = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def apply(self, grads):
        for i, (p, g) in enumerate(zip(self.params, grads)):
            self.vel[i] = g + self.vel[i] * self.mu
            p.copy_(p - self.vel[i] * self.lr)


def run(steps=5, batch=4):
    torch.manual_seed(4)
    args = ModelArgs()
    net = Decoder(args)
    data = torch.randint(0, args.vocab, (40, batch, args.max_len + 1))
    net = net.to(torch_xla.device())
    opt = HeavyBall(net.parameters())
    torch_xla.sync()
    for step in range(steps):
        chunk = data[step].to(torch_xla.device())
        loss = next_token_loss(net(chunk[:, :-1]), chunk[:, 1:])
        opt.apply(torch.autograd.grad(loss, opt.params))
        torch_xla.sync()
        print(step, f"{loss.item():.6f}")
    total = sum(float(p.detach().double().abs().sum()) for p in net.cpu().parameters())
    print(f"checksum {total:.5f}")


if __name__ == "__main__":
    run()
