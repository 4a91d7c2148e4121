import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

WIDTH, N_HEAD, CONTEXT, N_SYM, BATCH = 16, 2, 10, 24, 4


class Attention(nn.Module):
    """Multi-head attention over (batch, time, width), heads kept as an einsum axis."""

    def __init__(self, width, n_head):
        super().__init__()
        self.n_head, self.d_head = n_head, width // n_head
        self.wq = nn.Linear(width, width)
        self.wk = nn.Linear(width, width)
        self.wv = nn.Linear(width, width)
        self.wo = nn.Linear(width, width)

    def forward(self, h, hidden):
        b, t, w = h.shape
        v = self.wv(h).reshape(b, t, self.n_head, self.d_head)
        k = self.wk(h).reshape(b, t, self.n_head, self.d_head)
        q = self.wq(h).reshape(b, t, self.n_head, self.d_head)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.d_head ** -0.5
        probs = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.wo(mixed.reshape(b, t, w))


class FeedForward(nn.Module):

    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, h):
        return self.down(F.gelu(self.up(h)))


class Layer(nn.Module):

    def __init__(self, width, n_head):
        super().__init__()
        self.pre_attn = nn.LayerNorm(width)
        self.attn = Attention(width, n_head)
        self.pre_ff = nn.LayerNorm(width)
        self.ff = FeedForward(width)

    def forward(self, h, hidden):
        h = self.attn(self.pre_attn(h), hidden) + h
        return self.ff(self.pre_ff(h)) + h


class CharModel(nn.Module):

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(N_SYM, WIDTH)
        self.layer = Layer(WIDTH, N_HEAD)
        self.final = nn.LayerNorm(WIDTH)
        self.unembed = nn.Linear(WIDTH, N_SYM)
        self.position = nn.Parameter(torch.zeros(CONTEXT, WIDTH))

    def forward(self, ids, hidden):
        h = self.layer(self.embed(ids) + self.position, hidden)
        return self.unembed(self.final(h))


def next_symbol_loss(logits, target):
    logp = logits.log_softmax(dim=-1).flatten(0, 1)
    return F.nll_loss(logp, target.flatten())


@torch.no_grad()
def descend(params, lr):
    for p in params:
        p.add_(p.grad, alpha=-lr)
        p.grad = None


def sequences(n):
    g = torch.Generator().manual_seed(1)
    first = torch.randint(N_SYM, (n, 1), generator=g)
    hop = torch.randint(1, 4, (n, 1), generator=g)
    return (first + hop * torch.arange(CONTEXT + 1)) % N_SYM


def main(steps=3, lr=0.1):
    torch.manual_seed(5)
    device = torch_xla.device()
    model = CharModel().to(device)
    params = list(reversed(list(model.parameters())))
    hidden = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1).to(device)
    batches = sequences(BATCH * steps).chunk(steps)
    torch_xla.sync()
    for batch in batches:
        batch = batch.to(device)
        loss = next_symbol_loss(model(batch[:, :-1], hidden), batch[:, 1:])
        loss.backward()
        descend(params, lr)
        torch_xla.sync()
        print("loss %.6f" % loss.item())
    print("sum %.6f" % sum(p.double().abs().sum().item() for p in model.cpu().parameters()))


if __name__ == "__main__":
    main()
