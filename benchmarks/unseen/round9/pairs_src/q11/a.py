"""Masked token prediction with a small encoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "vocab": 80, "dim": 32, "heads": 4, "depth": 2, "ffn": 64, "seq": 20, "batch": 8,
    "mask_prob": 0.15, "mask_id": 1, "lr": 1e-3, "warmup": 4, "steps": 12,
}


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        att = torch.softmax(q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5, dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.attn = SelfAttention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim))
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        x = self.norm2(x + self.ffn(x))
        return x


class MaskedLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c["vocab"], c["dim"])
        self.pos = nn.Embedding(c["seq"], c["dim"])
        self.layers = nn.ModuleList([Layer(c["dim"], c["heads"], c["ffn"]) for _ in range(c["depth"])])
        self.transform = nn.Linear(c["dim"], c["dim"])
        self.norm = nn.LayerNorm(c["dim"])
        self.bias = nn.Parameter(torch.zeros(c["vocab"]))

    def forward(self, ids):
        h = self.tok(ids) + self.pos.weight[None, : ids.shape[1]]
        for layer in self.layers:
            h = layer(h)
        h = self.norm(F.gelu(self.transform(h)))
        return F.linear(h, self.tok.weight, self.bias)


def corrupt(c, gen):
    start = torch.randint(2, c["vocab"], (c["batch"], 1), generator=gen)
    ids = 2 + (start + torch.arange(c["seq"])[None] * 3) % (c["vocab"] - 2)
    mask = torch.rand(ids.shape, generator=gen) < c["mask_prob"]
    labels = torch.where(mask, ids, torch.full_like(ids, -100))
    return torch.where(mask, torch.full_like(ids, c["mask_id"]), ids), labels


def main(c):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(2)
    dev = torch_xla.device()
    model = MaskedLM(c).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=c["lr"], weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: (s + 1) / (c["warmup"] + 1) if s < c["warmup"] else 0.9)
    for step in range(c["steps"]):
        ids, labels = (t.to(dev) for t in corrupt(c, gen))
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 4 == 3:
            print(f"{step + 1:4d} mlm loss {loss.item():.4f}")


if __name__ == "__main__":
    main(CONFIG)
