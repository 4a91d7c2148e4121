"""Sequence tagger with a sparse feed-forward layer (dense dispatch, top-2 of 4 experts)."""
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s")
logger = logging.getLogger(__name__)


class Router(nn.Module):
    """Scores experts per token and keeps the k best."""

    def __init__(self, dim, experts, k=2):
        super().__init__()
        self.score = nn.Linear(dim, experts, bias=False)
        self.experts, self.k = experts, k

    def forward(self, x):
        logits = self.score(x)
        best, chosen = logits.topk(self.k, dim=-1)
        gates = best.softmax(dim=-1)
        onehot = F.one_hot(chosen, self.experts).to(x.dtype)
        combine = (gates.unsqueeze(-1) * onehot).sum(-2)
        load = onehot.sum(-2).mean((0, 1))
        importance = logits.softmax(dim=-1).mean((0, 1))
        balance = self.experts * (load * importance).sum()
        return combine, balance


class SparseFfn(nn.Module):
    def __init__(self, dim, hidden, experts):
        super().__init__()
        self.router = Router(dim, experts)
        self.w_in = nn.Parameter(torch.randn(experts, dim, hidden) * dim ** -0.5)
        self.w_out = nn.Parameter(torch.randn(experts, hidden, dim) * hidden ** -0.5)

    def forward(self, x):
        combine, balance = self.router(x)
        h = F.silu(torch.einsum("btd,edh->bteh", x, self.w_in))
        y = torch.einsum("bteh,ehd->bted", h, self.w_out)
        return torch.einsum("bted,bte->btd", y, combine), balance


class Tagger(nn.Module):
    def __init__(self, vocab=120, dim=16, tags=6, experts=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.ffn = nn.ModuleList(SparseFfn(dim, 24, experts) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        aux = 0.0
        for norm, ffn in zip(self.norm, self.ffn):
            y, balance = ffn(norm(x))
            x, aux = x + y, aux + balance
        return self.out(x), aux


def train_step(model, opt, ids, tags, aux_weight):
    logits, aux = model(ids)
    loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten()) + aux_weight * aux
    opt.zero_grad()
    loss.backward()
    xm.optimizer_step(opt)
    return loss.detach()


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    model = Tagger().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)
    torch_xla.sync()
    for i in range(3):
        ids = torch.randint(120, (3, 10)).to(device)
        tags = torch.randint(6, (3, 10)).to(device)
        loss = train_step(model, opt, ids, tags, 0.01)
        torch_xla.sync()
        logger.info("step %d: %.4f", i, loss.item())


if __name__ == "__main__":
    main()
