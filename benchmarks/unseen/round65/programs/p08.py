"""Fine-tune a small log-line encoder for incident triage, top layers first.

The encoder stands for a pretrained one: training starts with the classifier
only and opens one more block every few steps, each with a smaller rate.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, LENGTH, CLASSES = 200, 20, 3
DEPTH = 3


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        score = score.masked_fill(pad[:, None, None, :], -1e4)
        x = x + self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class TriageModel(nn.Module):
    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.pos = nn.Parameter(0.02 * torch.randn(LENGTH, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, CLASSES)

    def forward(self, ids):
        pad = ids == 0
        x = self.tok(ids) + self.pos
        for block in self.blocks:
            x = block(x, pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        pooled = (self.norm(x) * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.cls(pooled)


class LogLines:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def batch(self, n):
        y = torch.randint(0, CLASSES, (n,), generator=self.gen)
        ids = torch.randint(1, VOCAB, (n, LENGTH), generator=self.gen)
        marker = torch.rand(n, LENGTH, generator=self.gen) < 0.25
        ids = torch.where(marker, 10 + y.unsqueeze(1), ids)
        length = torch.randint(6, LENGTH + 1, (n, 1), generator=self.gen)
        return ids.masked_fill(torch.arange(LENGTH) >= length, 0), y


class Unfreezer:
    def __init__(self, model, opt, every, decay):
        self.model, self.opt = model, opt
        self.every, self.decay = every, decay
        self.base = opt.param_groups[0]["lr"]
        self.opened = 0
        self.closed = list(model.blocks)
        for p in model.parameters():
            p.requires_grad_(False)
        for p in opt.param_groups[0]["params"]:
            p.requires_grad_(True)

    def before_step(self, step):
        if step and step % self.every == 0 and self.closed:
            block = self.closed.pop()
            self.opened += 1
            params = list(block.parameters())
            for p in params:
                p.requires_grad_(True)
            self.opt.add_param_group(
                {"params": params, "lr": self.base * self.decay ** self.opened})


@torch.no_grad()
def accuracy(model, held):
    model.eval()
    right = torch.zeros((), device=held[0][0].device)
    for ids, y in held:
        right += (model(ids).argmax(-1) == y).sum()
        torch_xla.sync()
    model.train()
    return right.item() / sum(len(y) for _, y in held)


def main(steps=36, batch=16):
    torch.manual_seed(19)
    device = torch_xla.device()
    data = LogLines(seed=20)
    held = [tuple(t.to(device) for t in data.batch(batch)) for _ in range(3)]

    model = TriageModel().to(device)
    top = list(model.norm.parameters()) + list(model.cls.parameters())
    opt = torch.optim.SGD(top, lr=0.1, momentum=0.9)
    unfreezer = Unfreezer(model, opt, every=4, decay=0.6)

    for step in range(steps):
        unfreezer.before_step(step)
        ids, y = (t.to(device) for t in data.batch(batch))
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 12 == 11:
            print(f"{step} loss {loss.item():.3f} acc {accuracy(model, held):.3f} "
                  f"open {unfreezer.opened}")


if __name__ == "__main__":
    main()
