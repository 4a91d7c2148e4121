"""One decoding step of a tiny selective state-space model over event logs (torch_xla)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, INNER, STATE, CONV, LAYERS, BATCH = 29, 12, 16, 4, 3, 3, 2
TOP_K = 5


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(DIM)
        self.in_proj = nn.Linear(DIM, 2 * INNER, bias=False)
        self.conv_w = nn.Parameter(torch.randn(INNER, CONV) * 0.3)
        self.conv_b = nn.Parameter(torch.zeros(INNER))
        self.x_proj = nn.Linear(INNER, 1 + 2 * STATE, bias=False)
        self.dt_proj = nn.Linear(1, INNER)
        self.a_log = nn.Parameter(torch.log(torch.arange(1.0, STATE + 1).repeat(INNER, 1)))
        self.skip = nn.Parameter(torch.ones(INNER))
        self.out_proj = nn.Linear(INNER, DIM, bias=False)

    def step(self, x, cache):
        u, gate = self.in_proj(self.norm(x)).chunk(2, dim=-1)
        cache["conv"] = torch.cat([cache["conv"][:, :, 1:], u.unsqueeze(-1)], dim=-1)
        u = F.silu((cache["conv"] * self.conv_w).sum(-1) + self.conv_b)
        dt, b, c = self.x_proj(u).split([1, STATE, STATE], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        decay = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.a_log))
        drive = (dt * u).unsqueeze(-1) * b.unsqueeze(1)
        y = (cache["ssm"] * c.unsqueeze(1)).sum(-1) + self.skip * u
        cache["ssm"] = cache["ssm"] * decay + drive
        return x + self.out_proj(y * F.silu(gate))


class EventLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)

    def init_cache(self, device):
        return [{"conv": torch.zeros(BATCH, INNER, CONV, device=device),
                 "ssm": torch.zeros(BATCH, INNER, STATE, device=device)} for _ in range(LAYERS)]

    @torch.no_grad()
    def step(self, token, caches):
        x = self.emb(token)
        for block, cache in zip(self.blocks, caches):
            x = block.step(x, cache)
        return F.linear(self.norm(x), self.emb.weight)


@torch.no_grad()
def penalize(logits, counts, alpha=0.7):
    return logits - alpha * (counts > 0).to(logits.dtype)


@torch.no_grad()
def sample(logits, gumbel, temp=0.85):
    kth = logits.topk(TOP_K, dim=-1).values[:, -1:]
    logits = logits.masked_fill(logits < kth, float("-inf"))
    return (logits / temp + gumbel).argmax(-1)


def decode_step(model, token, caches, counts, gumbel):
    logits = model.step(token, caches)
    logits = penalize(logits, counts)
    token = sample(logits, gumbel)
    logp = F.log_softmax(logits, dim=-1).gather(-1, token.unsqueeze(-1))
    counts = counts + F.one_hot(token, VOCAB)
    return token, counts, logp.squeeze(-1)


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def main(path):
    torch.manual_seed(17)
    device = torch_xla.device()
    model = EventLM().to(device).eval()
    caches = model.init_cache(device)
    counts = torch.zeros(BATCH, VOCAB, dtype=torch.long, device=device)
    token = torch.tensor([3, 8], device=device)
    gen = torch.Generator().manual_seed(1)
    torch_xla.sync()
    for pos in range(5):
        u = torch.rand(BATCH, VOCAB, generator=gen).clamp_min(1e-6)
        gumbel = (-(-u.log()).log()).to(device)
        token, counts, logp = decode_step(model, token, caches, counts, gumbel)
        if pos == 3:
            state = [c[k] for c in caches for k in ("conv", "ssm")]
            dump(path, [token, counts, logp] + state)
        torch_xla.sync()
        print(pos, token.tolist(), [round(v, 5) for v in logp.tolist()])


if __name__ == "__main__":
    main(sys.argv[1])
