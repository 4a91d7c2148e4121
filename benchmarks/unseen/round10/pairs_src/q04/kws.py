import itertools
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class DSBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv1d(c, c, 5, padding=2, groups=c)
        self.pw = nn.Conv1d(c, c, 1)
        self.norm = nn.GroupNorm(4, c)

    def forward(self, x):
        return x + F.silu(self.norm(self.pw(self.dw(x))))


class KeywordNet(nn.Module):
    def __init__(self, mels=20, c=16, blocks=2, classes=10):
        super().__init__()
        self.stem = nn.Conv1d(mels, c, 3, padding=1)
        self.blocks = nn.Sequential(*[DSBlock(c) for _ in range(blocks)])
        self.head = nn.Linear(c, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(-1))


class CommandsLoader:
    def __init__(self, batches, batch_size, seed):
        self.n, self.bs, self.seed = batches, batch_size, seed

    def __len__(self):
        return self.n

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.n):
            yield (torch.randn(self.bs, 20, 32, generator=g),
                   torch.randint(0, 10, (self.bs,), generator=g))


def chunks(it, n):
    it = iter(it)
    while True:
        block = list(itertools.islice(it, n))
        if not block:
            return
        yield block


class Engine:
    def __init__(self, accumulate=4, lr=1e-2):
        self.dev = xm.xla_device()
        self.model = KeywordNet().to(self.dev)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.accumulate = accumulate
        self.updates = 0

    def update(self, block):
        self.opt.zero_grad()
        total = 0.
        for x, y in block:
            x, y = x.to(self.dev), y.to(self.dev)
            loss = F.cross_entropy(self.model(x), y) / self.accumulate
            loss.backward()
            total = total + loss.detach()
        self.opt.step()
        xm.mark_step()
        self.updates += 1
        return total

    def epoch(self, loader):
        for block in chunks(loader, self.accumulate):
            loss = self.update(block)
        return loss


def main():
    torch.manual_seed(4)
    eng = Engine()
    loader = CommandsLoader(batches=14, batch_size=4, seed=9)
    for ep in range(3):
        loss = eng.epoch(loader)
        print(f'epoch {ep}: {eng.updates} updates, loss {loss.item():.4f}')


if __name__ == '__main__':
    main()
