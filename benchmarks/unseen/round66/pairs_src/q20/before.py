"""Symbolic-music decoder (REMI tokens) with rotary attention and SwiGLU."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, HEADS, LAYERS, CTX, PAD = 64, 32, 4, 2, 24, 0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_gain = nn.Parameter(torch.ones(DIM))
        self.wq = nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, DIM, bias=False)
        self.wv = nn.Linear(DIM, DIM, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)
        self.mlp_gain = nn.Parameter(torch.ones(DIM))
        self.w_gate = nn.Linear(DIM, 64, bias=False)
        self.w_up = nn.Linear(DIM, 64, bias=False)
        self.w_down = nn.Linear(64, DIM, bias=False)

    def forward(self, x, cos, sin, mask):
        B, T, _ = x.shape
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.attn_gain
        q = self.wq(h).view(B, T, HEADS, -1).transpose(1, 2)
        k = self.wk(h).view(B, T, HEADS, -1).transpose(1, 2)
        v = self.wv(h).view(B, T, HEADS, -1).transpose(1, 2)
        q1, q2 = q.chunk(2, -1)
        q = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], -1)
        k1, k2 = k.chunk(2, -1)
        k = torch.cat([k1 * cos - k2 * sin, k2 * cos + k1 * sin], -1)
        att = torch.matmul(q, k.transpose(-2, -1)) / (DIM // HEADS) ** 0.5
        att = att.masked_fill(mask, -1e9)
        att = torch.softmax(att, -1)
        o = torch.matmul(att, v).transpose(1, 2).reshape(B, T, DIM)
        x = x + self.wo(o)
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.mlp_gain
        return x + self.w_down(F.silu(self.w_gate(h)) * self.w_up(h))


class MusicLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.gain = nn.Parameter(torch.ones(DIM))
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        inv = 10000 ** (-torch.arange(0, DIM // HEADS, 2).float() / (DIM // HEADS))
        ang = torch.outer(torch.arange(CTX).float(), inv)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)
        self.register_buffer("mask", torch.ones(CTX, CTX, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.mask)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain
        return self.head(x)


def make_batch(gen, batch=4):
    ids = torch.randint(1, VOCAB, (batch, CTX + 1), generator=gen)
    lengths = torch.randint(CTX // 2, CTX + 2, (batch,), generator=gen)
    ids[torch.arange(CTX + 1)[None] >= lengths[:, None]] = PAD
    return ids


def main(steps=4):
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    device = torch_xla.device()
    model = MusicLM().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    xm.mark_step()
    for step in range(steps):
        ids = make_batch(gen)
        inp, tgt = ids[:, :-1].to(device), ids[:, 1:].to(device)
        opt.zero_grad()
        logits = model(inp)
        logp = F.log_softmax(logits, -1)
        nll = -logp.gather(-1, tgt.unsqueeze(-1)).squeeze(-1)
        keep = (tgt != PAD).float()
        loss = (nll * keep).sum() / keep.sum()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, f"{loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
