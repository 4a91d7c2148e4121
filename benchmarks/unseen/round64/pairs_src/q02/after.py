"""Protein language model with a sparse mixture-of-experts feed-forward, bfloat16 autocast, torch_xla."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, MASK_ID, PAD_ID = 33, 32, 1
DIM, HEADS, EXPERTS, TOP_K = 16, 2, 4, 2
SEQ, BATCH = 20, 4
AUX_WEIGHT, Z_WEIGHT = 1e-2, 1e-3


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return (h * self.weight).to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, bias):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (DIM // HEADS) ** -0.5
        attn = F.softmax(scores.float() + bias, dim=-1)
        return self.proj((attn.to(v.dtype) @ v).transpose(1, 2).reshape(b, n, DIM))


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, EXPERTS, bias=False)
        nn.init.normal_(self.gate.weight, std=0.02)

    def forward(self, tokens):
        logits = self.gate(tokens).float()
        probs = F.softmax(logits, dim=-1)
        gate, index = probs.topk(TOP_K, dim=-1)
        gate = gate / gate.sum(dim=-1, keepdim=True)
        combine = torch.zeros_like(probs).scatter(-1, index, gate)
        return combine, self.balance_loss(logits, probs, combine)

    @staticmethod
    def balance_loss(logits, probs, combine):
        load = (combine > 0).float().mean(dim=0)
        aux = EXPERTS * (load * probs.mean(dim=0)).sum()
        z = torch.logsumexp(logits, dim=-1).square().mean()
        return AUX_WEIGHT * aux + Z_WEIGHT * z


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()
        self.w_in = nn.Parameter(torch.randn(EXPERTS, DIM, 2 * DIM) * DIM ** -0.5)
        self.w_out = nn.Parameter(torch.randn(EXPERTS, 2 * DIM, DIM) * (2 * DIM) ** -0.5)

    def forward(self, x):
        tokens = x.reshape(-1, DIM)
        combine, aux = self.router(tokens)
        h = F.silu(torch.matmul(tokens, self.w_in))
        y = torch.matmul(h, self.w_out)
        y = (y * combine.t().unsqueeze(-1).to(y.dtype)).sum(dim=0)
        return y.view_as(x), aux


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn = RMSNorm(DIM), Attention()
        self.norm2, self.moe = RMSNorm(DIM), MoE()

    def forward(self, x, bias):
        x = x + self.attn(self.norm1(x), bias)
        y, aux = self.moe(self.norm2(x))
        return x + y, aux


class ProteinLM(nn.Module):
    def __init__(self, depth=1):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.norm = RMSNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        bias = (tokens == PAD_ID)[:, None, None, :].float() * -1e4
        x, aux = self.embed(tokens), 0.0
        for layer in self.layers:
            x, a = layer(x, bias)
            aux = aux + a
        return self.lm_head(self.norm(x)), aux


def corrupt(tokens, generator):
    mask = (torch.rand(tokens.shape, generator=generator) < 0.15) & (tokens != PAD_ID)
    labels = torch.where(mask, tokens, torch.full_like(tokens, -100))
    return torch.where(mask, torch.full_like(tokens, MASK_ID), tokens), labels


def main(steps=4):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    device = torch_xla.device()
    model = ProteinLM().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, betas=(0.9, 0.98), weight_decay=0.01)
    torch_xla.sync()
    for step in range(steps):
        tokens = torch.randint(4, 30, (BATCH, SEQ), generator=g)
        tokens[0, 14:] = PAD_ID
        inputs, labels = (t.to(device) for t in corrupt(tokens, g))
        with torch.autocast(device_type="xla", dtype=torch.bfloat16):
            logits, aux = model(inputs)
            mlm = F.cross_entropy(logits.float().view(-1, VOCAB), labels.view(-1), ignore_index=-100)
            loss = mlm + aux
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} mlm {mlm.detach().item():.4f} aux {aux.detach().item():.5f}", flush=True)


if __name__ == "__main__":
    main()
