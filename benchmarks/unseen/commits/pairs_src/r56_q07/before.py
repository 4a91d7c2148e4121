"""Causal LM fine-tuning in bfloat16 with float32 master weights kept by the optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * h.to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.h, self.kv, self.hd = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.kv_proj = nn.Linear(dim, 2 * kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cos, sin, bias):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k, v = self.kv_proj(x).view(b, t, 2 * self.kv, self.hd).transpose(1, 2).chunk(2, 1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        n = self.h // self.kv
        k = k[:, :, None].expand(b, self.kv, n, t, self.hd).reshape(b, self.h, t, self.hd)
        v = v[:, :, None].expand(b, self.kv, n, t, self.hd).reshape(b, self.h, t, self.hd)
        w = q @ k.transpose(-1, -2) * self.hd ** -0.5 + bias
        w = w.float().softmax(-1).to(x.dtype)
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    def __init__(self, dim, heads, kv_heads, ffn):
        super().__init__()
        self.attn_norm, self.mlp_norm = RMSNorm(dim), RMSNorm(dim)
        self.attn = Attention(dim, heads, kv_heads)
        self.gate_up = nn.Linear(dim, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, dim, bias=False)

    def forward(self, x, *args):
        x = x + self.attn(self.attn_norm(x), *args)
        g, u = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(g) * u)


class CausalLM(nn.Module):
    def __init__(self, vocab=96, dim=32, heads=4, kv_heads=2, ffn=64, layers=1, ctx=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        inv = 1.0 / 10000 ** (torch.arange(0, dim // heads, 2) / (dim // heads))
        ang = torch.outer(torch.arange(ctx).float(), inv).repeat(1, 2)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)
        self.register_buffer("bias", torch.full((ctx, ctx), -1e4).triu(1), persistent=False)

    def forward(self, ids, labels):
        t = ids.shape[1]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:t], self.sin[:t], self.bias[:t, :t])
        logits = self.lm_head(self.norm(x))
        return causal_lm_loss(logits, labels)


def causal_lm_loss(logits, labels, ignore_index=-100):
    logits = logits.float()
    shift = F.pad(labels, (0, 1), value=ignore_index)[:, 1:]
    keep = shift != ignore_index
    logp = F.log_softmax(logits, -1)
    nll = -logp.gather(-1, shift.clamp(min=0)[..., None]).squeeze(-1)
    return (nll * keep).sum() / keep.sum()


class MasterSGD:
    def __init__(self, params, lr, momentum=0.9, weight_decay=0.01):
        self.params = [p for p in params if p.requires_grad]
        self.master = [p.detach().float().clone() for p in self.params]
        self.buf = [torch.zeros_like(m) for m in self.master]
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay

    @torch.no_grad()
    def step(self):
        for p, m, b in zip(self.params, self.master, self.buf):
            b.mul_(self.momentum).add_(p.grad.float())
            m.mul_(1 - self.lr * self.weight_decay).sub_(self.lr * b)
            p.copy_(m)
            p.grad = None


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(4)
    device = torch_xla.device()
    model = CausalLM().to(torch.bfloat16).to(device)
    opt = MasterSGD(model.parameters(), lr=0.05)
    torch_xla.sync()
    for step in range(5):
        ids = torch.randint(0, 96, (3, 24), generator=gen)
        prompt = torch.randint(2, 8, (3, 1), generator=gen)
        labels = torch.where(torch.arange(24)[None] < prompt, -100, ids)
        loss = model(ids.to(device), labels.to(device))
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
