import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

DIM, HEADS, SEQ, VOCAB, BATCH = 16, 2, 10, 24, 4


class SelfAttention(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def split(self, t):
        b, s, d = t.shape
        return t.view(b, s, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        att = (q @ k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
        att = att.masked_fill(mask, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(x.shape)
        return self.out(y)


class Block(nn.Module):

    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class CharLM(nn.Module):

    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.zeros(SEQ, DIM))
        self.block = Block(DIM, HEADS)
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids, mask):
        x = self.tok(ids) + self.pos
        return self.head(self.norm(self.block(x, mask)))


def corpus(n):
    g = torch.Generator().manual_seed(1)
    start = torch.randint(VOCAB, (n, 1), generator=g)
    stride = torch.randint(1, 4, (n, 1), generator=g)
    return (start + stride * torch.arange(SEQ + 1)) % VOCAB


def lm_loss(model, ids, mask):
    logits = model(ids[:, :-1], mask)
    return F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))


def main(steps=3):
    torch.manual_seed(5)
    device = torch_xla.device()
    model = CharLM().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    mask = torch.triu(torch.ones(SEQ, SEQ, dtype=torch.bool), diagonal=1).to(device)
    data = corpus(BATCH * steps).split(BATCH)
    xm.mark_step()
    for ids in data:
        ids = ids.to(device)
        loss = lm_loss(model, ids, mask)
        loss.backward()
        opt.step()
        opt.zero_grad()
        xm.mark_step()
        print("loss %.6f" % loss.item())
    print("sum %.6f" % sum(p.double().abs().sum().item() for p in model.cpu().parameters()))


if __name__ == "__main__":
    main()
