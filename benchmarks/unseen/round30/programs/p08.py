import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

torch.manual_seed(0)

TEXT = ("the quick brown fox jumps over the lazy dog while seven wizards "
        "pack my box with five dozen liquor jugs and sphinx of black quartz judges my vow. ") * 12


class Expert(nn.Module):

    def __init__(self, d, f):
        super().__init__()
        self.w1 = nn.Linear(d, f, bias=False)
        self.w2 = nn.Linear(f, d, bias=False)
        self.w3 = nn.Linear(d, f, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):

    def __init__(self, d, f, n_experts=3, top_k=1):
        super().__init__()
        self.router = nn.Linear(d, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(d, f) for _ in range(n_experts))
        self.n_experts = n_experts
        self.top_k = top_k

    def forward(self, x):
        b, t, d = x.shape
        x = x.reshape(-1, d)
        probs = F.softmax(self.router(x), dim=-1)
        weight, choice = probs.topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(choice == e)
            picked = expert(x[rows]) * weight[rows, slot].unsqueeze(-1)
            out = out.index_add(0, rows, picked)
        load = F.one_hot(choice[:, 0], self.n_experts).float().mean(0)
        aux = self.n_experts * (load * probs.mean(0)).sum()
        return out.view(b, t, d), aux


class Block(nn.Module):

    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix = nn.Conv1d(d, d, 3, groups=d)
        self.moe = SparseMoE(d, 2 * d)

    def forward(self, x):
        h = F.pad(self.ln1(x).transpose(1, 2), (2, 0))
        x = x + self.mix(h).transpose(1, 2)
        y, aux = self.moe(self.ln2(x))
        return x + y, aux


class CharLM(nn.Module):

    def __init__(self, vocab, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.block = Block(d)
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, idx, targets):
        x, aux = self.block(self.emb(idx))
        logits = self.head(self.ln(x))
        ce = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return ce + 0.01 * aux, ce


def get_batch(data, block_size, batch_size):
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([data[i:i + block_size] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + block_size] for i in ix])
    return x, y


if __name__ == "__main__":
    chars = sorted(set(TEXT))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in TEXT])
    device = torch_xla.device()
    model = CharLM(len(chars)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    torch_xla.sync()

    for it in range(10):
        xb, yb = get_batch(data, 16, 4)
        with torch_xla.step():
            loss, ce = model(xb.to(device), yb.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if it % 3 == 0:
            print(f"iter {it}: loss {ce.item():.4f}")
