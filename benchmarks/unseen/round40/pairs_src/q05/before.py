"""Set transformer for basket completion: rank candidate items against a basket (ListNet top-one loss)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "a.hlo"))
DUMP_AT = 2


class InducedBlock(nn.Module):
    def __init__(self, dim, points):
        super().__init__()
        self.points = nn.Parameter(torch.randn(points, dim) * 0.3)
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.ff = nn.Linear(dim, dim)

    def attend(self, query, items, mask=None):
        k, v = self.kv(items).chunk(2, dim=-1)
        score = self.q(query) @ k.transpose(-1, -2) / k.shape[-1] ** 0.5
        if mask is not None:
            score = score.masked_fill(~mask[:, None, :], -1e9)
        h = query + score.softmax(dim=-1) @ v
        return h + F.relu(self.ff(h))

    def forward(self, items, mask):
        hub = self.points.expand(items.shape[0], -1, -1)
        hub = self.attend(hub, items, mask)
        return self.attend(items, hub)


class BasketRanker(nn.Module):
    def __init__(self, items=30, dim=8):
        super().__init__()
        self.item = nn.Embedding(items, dim)
        self.block = InducedBlock(dim, 3)
        self.score = nn.Linear(dim, dim)

    def forward(self, basket, mask, candidates):
        h = self.block(self.item(basket), mask)
        m = mask.unsqueeze(-1).to(h.dtype)
        pooled = (h * m).sum(1) / m.sum(1).clamp(min=1.0)
        return torch.einsum("bcd,bd->bc", self.item(candidates), self.score(pooled))


def listnet(scores, relevance, temperature=0.5):
    target = torch.softmax(relevance / temperature, dim=-1)
    logp = torch.log_softmax(scores, dim=-1)
    return -(target * logp).sum(dim=-1).mean()


def train_step(net, opt, basket, mask, candidates, relevance):
    opt.zero_grad(set_to_none=True)
    loss = listnet(net(basket, mask, candidates), relevance)
    loss.backward()
    opt.step()
    return loss


def make_batch(g):
    basket = torch.randint(0, 30, (5, 6), generator=g)
    mask = torch.arange(6)[None] < torch.randint(2, 7, (5, 1), generator=g)
    candidates = torch.randint(0, 30, (5, 5), generator=g)
    relevance = torch.randint(0, 3, (5, 5), generator=g).float()
    return basket, mask, candidates, relevance


def main(steps=3):
    dev = torch_xla.device()
    torch.manual_seed(8)
    net = BasketRanker().to(dev)
    g = torch.Generator().manual_seed(1)
    params = list(net.parameters())
    opt = torch.optim.NAdam(params, lr=2e-3)
    for i in range(steps):
        loss = train_step(net, opt, *(t.to(dev) for t in make_batch(g)))
        if i == DUMP_AT:
            live = params + [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")] + [loss]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, loss.item(), file=sys.stderr)


if __name__ == "__main__":
    main()
