"""DLRM-style click-through-rate model, trained on XLA."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TABLES = (120, 80, 300, 40)
DENSE = 13
DIM = 8


def mlp(sizes, last_relu=True):
    mods = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        mods.append(nn.Linear(a, b))
        if last_relu or i < len(sizes) - 2:
            mods.append(nn.ReLU())
    return nn.Sequential(*mods)


class DLRM(nn.Module):

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, DIM) for n in TABLES)
        self.bottom = mlp((DENSE, 32, 16, DIM))
        n = len(TABLES) + 1
        row, col = torch.tril_indices(n, n, offset=-1)
        self.register_buffer('pairs', row * n + col)
        self.top = mlp((DIM + n * (n - 1) // 2, 32, 16, 1), last_relu=False)

    def dense_parameters(self):
        yield from self.bottom.parameters()
        yield from self.top.parameters()

    def interact(self, dense, sparse):
        z = torch.stack([dense] + sparse, dim=1)
        inner = torch.bmm(z, z.transpose(1, 2)).flatten(1)
        return torch.cat([dense, inner.index_select(1, self.pairs)], dim=1)

    def forward(self, dense, cats):
        d = self.bottom(torch.log1p(dense))
        s = [t(cats[:, i]) for i, t in enumerate(self.tables)]
        return self.top(self.interact(d, s)).squeeze(1)


class Trainer:

    def __init__(self, model, lr=0.02, max_norm=1.0):
        self.model = model
        self.max_norm = max_norm
        self.opt = torch.optim.Adagrad(model.parameters(), lr=lr, eps=1e-8)

    def step(self, dense, cats, click):
        self.opt.zero_grad()
        logits = self.model(dense, cats)
        loss = F.binary_cross_entropy_with_logits(logits, click)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.dense_parameters(), self.max_norm)
        self.opt.step()
        return loss, norm


def main(steps=4, batch=32):
    torch.manual_seed(0)
    device = torch_xla.device()
    trainer = Trainer(DLRM().to(device))
    torch_xla.sync()
    for step in range(steps):
        dense = torch.rand(batch, DENSE).mul(10).to(device)
        cats = torch.stack([torch.randint(0, n, (batch,)) for n in TABLES], 1).to(device)
        click = torch.randint(0, 2, (batch,)).float().to(device)
        loss, norm = trainer.step(dense, cats, click)
        torch_xla.sync()
        print(step, loss.item(), norm.item())


if __name__ == '__main__':
    main()
