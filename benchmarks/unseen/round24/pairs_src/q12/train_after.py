import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.distributed.parallel_loader as pl

VOCAB, D, HEADS, SEQ, BATCH = 40, 32, 4, 12, 8


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = width // n_heads
        self.out_proj = nn.Linear(width, width)
        self.value_proj = nn.Linear(width, width)
        self.key_proj = nn.Linear(width, width, bias=False)
        self.query_proj = nn.Linear(width, width)

    def _heads(self, t):
        return t.unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, bias):
        values = self._heads(self.value_proj(x))
        keys = self._heads(self.key_proj(x))
        queries = self._heads(self.query_proj(x))
        scores = queries @ keys.mT / self.head_dim ** 0.5
        probs = (bias + scores).softmax(-1)
        ctx = (probs @ values).transpose(1, 2).flatten(2)
        return self.out_proj(ctx)


class FeedForward(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))


class PreNormResidual(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.inner = inner
        self.norm = nn.LayerNorm(width)

    def forward(self, x, *extra):
        return self.inner(self.norm(x), *extra) + x


class DecoderLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm_head = nn.Linear(D, VOCAB)
        self.final_norm = nn.LayerNorm(D)
        self.layers = nn.ModuleList()
        for _ in range(2):
            self.layers.append(
                nn.ModuleDict(
                    {
                        "mlp": PreNormResidual(D, FeedForward(D)),
                        "mixer": PreNormResidual(D, MultiHeadSelfAttention(D, HEADS)),
                    }
                )
            )
        self.positions = nn.Parameter(torch.zeros(SEQ, D))
        self.embed = nn.Embedding(VOCAB, D)
        self.register_buffer("attn_bias", torch.triu(torch.full((SEQ, SEQ), -1e9), 1))

    def forward(self, ids):
        x = self.positions + self.embed(ids)
        for layer in self.layers:
            x = layer["mixer"](x, self.attn_bias)
            x = layer["mlp"](x)
        return self.lm_head(self.final_norm(x))


def seed_weights(model):
    for p in model.parameters():
        g = torch.Generator().manual_seed(p.numel() + 7 * p.dim())
        p.data.copy_(0.08 * torch.randn(p.shape, generator=g))


def batches(device):
    g = torch.Generator().manual_seed(5)
    ids = torch.randint(0, VOCAB, (BATCH * 4, SEQ + 1), generator=g)
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return pl.MpDeviceLoader(DataLoader(TensorDataset(inputs, targets), batch_size=BATCH), device)


def next_token_loss(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def main():
    device = torch_xla.device()
    model = DecoderLM()
    seed_weights(model)
    model = model.to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for x, y in batches(device):
        optim.zero_grad()
        loss = next_token_loss(model, x, y)
        loss.backward()
        xm.optimizer_step(optim)
        xm.add_step_closure(lambda l: print("loss", round(l.item(), 6)), args=(loss.detach(),))


if __name__ == "__main__":
    main()
