import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, LAYERS, SEQ, BATCH, PAD = 64, 16, 2, 2, 16, 4, 0


class RMSNorm(nn.Module):

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        var = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(var + self.eps))


def rotary(q, k, cos, sin):

    def rot(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    return q * cos + rot(q) * sin, k * cos + rot(k) * sin


class Attention(nn.Module):

    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(DIM, DIM, bias=False)
        self.k_proj = nn.Linear(DIM, DIM, bias=False)
        self.v_proj = nn.Linear(DIM, DIM, bias=False)
        self.o_proj = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x, bias, cos, sin):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, -1).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotary(q, k, cos, sin)
        att = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        att = (att + bias).softmax(-1)
        return self.o_proj((att @ v).transpose(1, 2).reshape(b, t, DIM))


class MLP(nn.Module):

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 2 * DIM, bias=False)
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm1 = RMSNorm(DIM)
        self.attn = Attention()
        self.norm2 = RMSNorm(DIM)
        self.mlp = MLP()

    def forward(self, x, bias, cos, sin):
        x = x + self.attn(self.norm1(x), bias, cos, sin)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        hd = DIM // HEADS
        inv = 1.0 / (10000 ** (torch.arange(0, hd, 2).float() / hd))
        f = torch.outer(torch.arange(SEQ).float(), inv)
        f = torch.cat((f, f), -1)
        self.register_buffer("cos", f.cos(), persistent=False)
        self.register_buffer("sin", f.sin(), persistent=False)
        causal = torch.full((SEQ, SEQ), float("-inf")).triu(1)
        self.register_buffer("causal", causal[None, None], persistent=False)

    def forward(self, input_ids, attention_mask=None, labels=None):
        bias = self.causal
        if attention_mask is not None:
            pad = (1.0 - attention_mask[:, None, None, :].float()) * -1e9
            bias = bias + pad
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x, bias, self.cos, self.sin)
        logits = self.norm(x) @ self.embed.weight.t()
        return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1),
                               ignore_index=-100)


class Collator:

    def __init__(self, max_length=SEQ, pad_id=PAD):
        self.max_length = max_length
        self.pad_id = pad_id

    def __call__(self, docs):
        docs = [d[:self.max_length] for d in docs]
        ids = torch.full((len(docs), self.max_length), self.pad_id)
        for i, d in enumerate(docs):
            ids[i, :len(d)] = d
        batch = {"input_ids": ids, "labels": ids.clone()}
        batch["labels"][ids == self.pad_id] = -100
        if min(len(d) for d in docs) < self.max_length:
            batch["attention_mask"] = (ids != self.pad_id).long()
        return batch


def corpus(n, gen):
    for _ in range(n):
        length = int(torch.randint(12, 48, (1,), generator=gen))
        yield torch.randint(1, VOCAB, (length,), generator=gen)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    model = Decoder().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(list(corpus(10 * BATCH, gen)), batch_size=BATCH,
                                         collate_fn=Collator())
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(sorted(batch), loss.item())


if __name__ == "__main__":
    main()
