"""Trains a Switch/Mixtral-like sparse decoder under bf16 autocast."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, SEQ, DIM, HIDDEN, HEADS = 64, 16, 32, 48, 2
EXPERTS, TOP_K, CAPACITY_FACTOR, AUX_COEF = 4, 2, 1.25, 0.01


class Router(nn.Module):
    def __init__(self, dim, experts, top_k):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(dim, experts, bias=False)

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            logits = self.gate(x.float())
        probs = logits.softmax(dim=-1)
        weight, index = probs.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        return probs, weight, index


class SparseMLP(nn.Module):
    def __init__(self, dim, hidden, experts, top_k, capacity_factor):
        super().__init__()
        self.router = Router(dim, experts, top_k)
        self.experts, self.top_k, self.capacity_factor = experts, top_k, capacity_factor
        self.w_in = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.w_out = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        b, t, c = x.shape
        x = x.reshape(b * t, c)
        capacity = int(self.capacity_factor * self.top_k * b * t / self.experts)
        probs, weight, index = self.router(x)
        one_hot = F.one_hot(index, self.experts)
        position = (one_hot.transpose(0, 1).reshape(-1, self.experts).cumsum(0) - 1) * one_hot.transpose(0, 1).reshape(
            -1, self.experts
        )
        position = position.view(self.top_k, b * t, self.experts).transpose(0, 1).sum(-1)
        keep = position < capacity
        slots = F.one_hot(position.clamp(max=capacity - 1), capacity) * keep[..., None]
        dispatch = torch.einsum("nke,nkc->nec", one_hot.to(x.dtype), slots.to(x.dtype))
        combine = torch.einsum("nke,nkc,nk->nec", one_hot.to(weight.dtype), slots.to(weight.dtype), weight)
        h = torch.einsum("nec,nd->ecd", dispatch, x)
        h = F.silu(torch.bmm(h, self.w_in))
        h = torch.bmm(h, self.w_out)
        y = torch.einsum("nec,ecd->nd", combine, h)
        load = one_hot.float().sum(1).mean(0) / self.top_k
        aux = self.experts * (load * probs.float().mean(0)).sum()
        return y.view(b, t, c), aux


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.norm_1 = nn.RMSNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM, bias=False)
        self.norm_2 = nn.RMSNorm(DIM)
        self.moe = SparseMLP(DIM, HIDDEN, EXPERTS, TOP_K, CAPACITY_FACTOR)
        self.norm_f = nn.RMSNorm(DIM)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))

    def forward(self, idx):
        x = self.embed(idx)
        x = x + self.attention(self.norm_1(x))
        y, aux = self.moe(self.norm_2(x))
        x = self.norm_f(x + y)
        return F.linear(x, self.embed.weight), aux


def train_step(model, optimizer, tokens):
    with torch.autocast("xla", dtype=torch.bfloat16):
        logits, aux = model(tokens[:, :-1])
        ce = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss = ce + AUX_COEF * aux
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return ce.detach(), aux.detach()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Decoder().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.95))
    torch_xla.sync()
    log = []
    for step in range(5):
        tokens = torch.randint(0, VOCAB, (4, SEQ + 1)).to(device)
        log.append(train_step(model, optimizer, tokens))
        torch_xla.sync()
    for step, (ce, aux) in enumerate(log):
        xm.master_print(f"step {step} ce {ce.item():.4f} aux {aux.item():.4f}")


if __name__ == "__main__":
    main()
