"""Entity-embedding network for mixed tabular columns."""
import torch
from torch import nn
import torch_xla

CARDINALITIES = [12, 7, 31]
N_CONT = 6


class TabNetLike(nn.Module):
    def __init__(self, emb=4, hidden=(48, 24)):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, emb) for c in CARDINALITIES)
        dims = [emb * len(CARDINALITIES) + N_CONT, *hidden]
        blocks = []
        for i, o in zip(dims, dims[1:]):
            blocks += [nn.Linear(i, o), nn.LayerNorm(o), nn.SiLU()]
        self.body = nn.Sequential(*blocks)
        self.gate = nn.Linear(hidden[-1], hidden[-1])
        self.out = nn.Linear(hidden[-1], 1)

    def forward(self, cat, cont):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        h = self.body(torch.cat(e + [cont], 1))
        h = h * torch.sigmoid(self.gate(h))
        return self.out(h).squeeze(1)


class Frame:
    def __init__(self, n, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in CARDINALITIES], 1)
        self.cont = torch.randn(n, N_CONT, generator=g)
        self.y = self.cont[:, 0] * 2 + self.cat[:, 1].float() * 0.3 + 0.1 * torch.randn(n, generator=g)

    def iter(self, bs):
        perm = torch.randperm(len(self.y))
        for i in range(0, len(perm) - bs + 1, bs):
            j = perm[i:i + bs]
            yield self.cat[j], self.cont[j], self.y[j]


class Learner:
    def __init__(self, model, data, lr=3e-3):
        self.dev = torch_xla.device()
        self.model = model.to(self.dev)
        self.data = data
        self.loss_fn = nn.SmoothL1Loss()
        self.opt = torch.optim.RAdam(self.model.parameters(), lr=lr, weight_decay=1e-4)

    def one_batch(self, cat, cont, y):
        cat, cont, y = cat.to(self.dev), cont.to(self.dev), y.to(self.dev)
        loss = self.loss_fn(self.model(cat, cont), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    def fit(self, epochs, bs=32):
        for ep in range(epochs):
            losses = [self.one_batch(*b) for b in self.data.iter(bs)]
            print("epoch", ep, "train", sum(l.item() for l in losses) / len(losses))


if __name__ == "__main__":
    torch.manual_seed(7)
    Learner(TabNetLike(), Frame(128)).fit(3)
