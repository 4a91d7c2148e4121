import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DEVICE = torch_xla.device()

VOCAB, TAGS, RELS = 60, 8, 7
BATCH, LENGTH = 4, 10


class GatedConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, 2 * dim, 3, padding=1)

    def forward(self, x):
        h = self.conv(self.norm(x).transpose(1, 2)).transpose(1, 2)
        value, gate = h.chunk(2, dim=-1)
        return x + value * torch.sigmoid(gate)


class Biaffine(nn.Module):
    def __init__(self, dim, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, dim + 1, dim) * 0.05)

    def forward(self, dep, head):
        dep = torch.cat([dep, torch.ones_like(dep[..., :1])], dim=-1)
        return torch.einsum("bxi,oij,byj->boxy", dep, self.weight, head)


class DependencyParser(nn.Module):
    def __init__(self, dim=16, arc=12, rel=8):
        super().__init__()
        self.word = nn.Embedding(VOCAB, dim)
        self.tag = nn.Embedding(TAGS, dim)
        self.encoder = nn.ModuleList([GatedConv(dim) for _ in range(2)])
        self.arc_mlp = nn.Linear(dim, 2 * arc)
        self.rel_mlp = nn.Linear(dim, 2 * rel)
        self.arc_scorer = Biaffine(arc, 1)
        self.rel_scorer = Biaffine(rel, RELS)

    def forward(self, words, tags, pad):
        h = self.word(words) + self.tag(tags)
        for layer in self.encoder:
            h = layer(h)
        arc_dep, arc_head = F.leaky_relu(self.arc_mlp(h), 0.1).chunk(2, dim=-1)
        rel_dep, rel_head = F.leaky_relu(self.rel_mlp(h), 0.1).chunk(2, dim=-1)
        with torch.autocast("xla", enabled=False):
            arcs = self.arc_scorer(arc_dep.float(), arc_head.float()).squeeze(1)
        rels = self.rel_scorer(rel_dep, rel_head)
        arcs = arcs.masked_fill(pad.unsqueeze(1), -1e4)
        return arcs, rels


def parser_loss(arcs, rels, heads, labels, pad):
    valid = (~pad).float()
    arc = F.cross_entropy(arcs.flatten(0, 1), heads.flatten(), reduction="none")
    index = heads.view(BATCH, 1, LENGTH, 1).expand(-1, RELS, -1, -1)
    picked = rels.gather(3, index).squeeze(3)
    rel = F.cross_entropy(picked.transpose(1, 2).flatten(0, 1), labels.flatten(), reduction="none")
    return ((arc + rel) * valid.flatten()).sum() / valid.sum()


def treebank(gen):
    words = torch.randint(0, VOCAB, (BATCH, LENGTH), generator=gen)
    tags = torch.randint(0, TAGS, (BATCH, LENGTH), generator=gen)
    lengths = torch.randint(5, LENGTH + 1, (BATCH,), generator=gen)
    pad = torch.arange(LENGTH).unsqueeze(0) >= lengths.unsqueeze(1)
    heads = (torch.rand(BATCH, LENGTH, generator=gen) * lengths.unsqueeze(1)).long()
    labels = torch.randint(0, RELS, (BATCH, LENGTH), generator=gen)
    return [t.to(DEVICE) for t in (words, tags, pad, heads, labels)]


def main(steps=4):
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(43)
    model = DependencyParser().to(DEVICE)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.95), eps=1e-12)
    torch_xla.sync()

    losses = []
    for _ in range(steps):
        words, tags, pad, heads, labels = treebank(gen)
        with torch.autocast("xla", dtype=torch.bfloat16):
            arcs, rels = model(words, tags, pad)
            loss = parser_loss(arcs, rels, heads, labels, pad)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        torch_xla.sync()
    print([round(v.item(), 4) for v in losses])


if __name__ == "__main__":
    main()
