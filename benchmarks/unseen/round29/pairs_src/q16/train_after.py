"""Ticket triage: tiny post-norm transformer over bags of padded tokens."""
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, HEADS, FF, CLASSES = 50, 24, 3, 32, 4
HEAD_DIM = DIM // HEADS
BATCH, LENGTH = 6, 12


def multi_head(x, keep, wv, wk, wq, wo):
    values = wv(x).unflatten(-1, (HEADS, HEAD_DIM))
    keys = wk(x).unflatten(-1, (HEADS, HEAD_DIM))
    queries = wq(x).unflatten(-1, (HEADS, HEAD_DIM))
    sim = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / HEAD_DIM**0.5
    att = F.softmax(sim.masked_fill(keep.logical_not()[:, None, None], -1e4), dim=-1)
    mixed = torch.einsum("bhqk,bkhd->bqhd", att, values)
    return wo(mixed.flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(FF, DIM)
        self.up = nn.Linear(DIM, FF)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_mlp = nn.LayerNorm(DIM)
        self.mlp = MLP()
        self.wo = nn.Linear(DIM, DIM)
        self.wv = nn.Linear(DIM, DIM)
        self.wk = nn.Linear(DIM, DIM)
        self.wq = nn.Linear(DIM, DIM)
        self.ln_att = nn.LayerNorm(DIM)

    def forward(self, x, keep):
        att = multi_head(x, keep, self.wv, self.wk, self.wq, self.wo)
        x = self.ln_att(att + x)
        return self.ln_mlp(self.mlp(x) + x)


class TicketNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.classify = nn.Linear(DIM, CLASSES)
        self.position = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        self.embed = nn.Embedding(VOCAB, DIM)

    def forward(self, ids, keep):
        x = self.position + self.embed(ids)
        x = self.block(x, keep)
        keep = keep.float()
        total = torch.einsum("btd,bt->bd", x, keep)
        return self.classify(total / keep.sum(-1)[:, None])


def nll(scores, labels):
    logp = scores - torch.logsumexp(scores, dim=-1, keepdim=True)
    return F.nll_loss(logp, labels)


def objective(model, ids, keep, labels):
    return nll(model(ids, keep), labels)


def sgd(model):
    groups = [{"params": list(m.parameters(recurse=False))} for m in reversed(list(model.modules()))]
    groups = [g for g in groups if g["params"]]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9)


def data(n):
    g = torch.Generator().manual_seed(4)
    for _ in range(n):
        ids = torch.randint(1, VOCAB, (BATCH, LENGTH), generator=g)
        lens = torch.randint(3, LENGTH + 1, (BATCH, 1), generator=g)
        keep = torch.arange(LENGTH)[None] < lens
        yield ids * keep, keep, ids[:, 0] % CLASSES


def run():
    torch.manual_seed(0)
    device = torch_xla.device()
    net = TicketNet().to(device)
    opt = sgd(net)
    torch_xla.sync()
    for i, cpu_batch in enumerate(data(4)):
        ids, keep, labels = (t.to(device) for t in cpu_batch)
        opt.zero_grad()
        loss = objective(net, ids, keep, labels)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(f"{i}: {loss.item():.5f}")


if __name__ == "__main__":
    run()
