"""Switch-style MoE language model on protein sequences, all in bfloat16."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ALPHABET = "ACDEFGHIKLMNPQRSTVWY"
VOCAB = len(ALPHABET) + 2  # bos, pad
PAD = VOCAB - 1


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        pos = torch.arange(max_len)
        slopes = 2.0 ** -torch.arange(1, heads + 1).float()
        bias = -(pos[:, None] - pos[None, :]).clamp(min=0) * slopes[:, None, None]
        bias = bias.masked_fill(pos[None, :] > pos[:, None], -1e4)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in self.qkv(x).split(d, dim=-1))
        s = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5 + self.bias[:, :t, :t]
        return self.out((F.softmax(s, dim=-1) @ v).transpose(1, 2).reshape(b, t, d))


class Router(nn.Module):
    def __init__(self, dim, n_experts):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_experts, dim) * 0.02)

    def forward(self, x):
        logits = F.linear(x.float(), self.weight.float())
        return F.softmax(logits, dim=-1)


class SwitchFFN(nn.Module):
    def __init__(self, dim, hidden, n_experts):
        super().__init__()
        self.router = Router(dim, n_experts)
        self.w_in = nn.Parameter(torch.randn(n_experts, dim, hidden) * dim**-0.5)
        self.w_out = nn.Parameter(torch.randn(n_experts, hidden, dim) * hidden**-0.5)
        self.b_out = nn.Parameter(torch.zeros(n_experts, dim))
        self.n_experts = n_experts

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = self.router(flat)
        gate, index = probs.max(dim=-1)
        dispatch = F.one_hot(index, self.n_experts).to(probs.dtype)
        load = dispatch.mean(0)
        aux = self.n_experts * (load * probs.mean(0)).sum()
        combine = (dispatch * gate[:, None]).to(x.dtype)
        h = F.silu(torch.einsum("nd,edh->enh", flat, self.w_in))
        y = torch.einsum("enh,ehd->end", h, self.w_out) + self.b_out[:, None]
        y = torch.einsum("ne,end->nd", combine, y)
        return y.reshape(x.shape), aux.float()


class Layer(nn.Module):
    def __init__(self, dim, heads, max_len, n_experts):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.attn = Attention(dim, heads, max_len)
        self.ffn = SwitchFFN(dim, 2 * dim, n_experts)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        y, aux = self.ffn(self.norm2(x))
        return x + y, aux


class ProteinLM(nn.Module):
    def __init__(self, dim=16, heads=2, depth=1, max_len=24, n_experts=4):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, max_len, n_experts) for _ in range(depth))
        self.norm = RMSNorm(dim)

    def forward(self, tokens):
        x = self.embed(tokens)
        aux = 0.0
        for layer in self.layers:
            x, a = layer(x)
            aux = aux + a
        logits = F.linear(self.norm(x), self.embed.weight)
        return logits.float(), aux / len(self.layers)


def make_optimizer(model, lr=1e-3, weight_decay=0.1):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def sequences(batch, length, gen):
    lens = torch.randint(length // 2, length + 1, (batch,), generator=gen)
    seq = torch.randint(0, len(ALPHABET), (batch, length + 1), generator=gen)
    seq[:, 0] = len(ALPHABET)
    seq[torch.arange(length + 1)[None] > lens[:, None]] = PAD
    return seq[:, :-1], seq[:, 1:]


def main(steps=5):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(2)
    device = torch_xla.device()
    model = ProteinLM().to(device, torch.bfloat16)
    opt = make_optimizer(model)
    torch_xla.sync()
    for step in range(steps):
        x, y = (t.to(device) for t in sequences(4, 24, gen))
        logits, aux = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PAD) + 0.01 * aux
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
