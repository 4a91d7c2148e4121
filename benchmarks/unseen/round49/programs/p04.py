"""Child-sum-free binary Tree-LSTM that learns to evaluate boolean formulas."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LEAVES = ("true", "false", "not_true", "not_false")
OPS = ("and", "or", "xor")
DIM = 12
STEPS = 18
TREES_PER_STEP = 2
LOG_EVERY = 3


class Node:
    __slots__ = ("kind", "left", "right", "value")

    def __init__(self, kind, left=None, right=None):
        self.kind, self.left, self.right = kind, left, right
        if left is None:
            self.value = kind in ("true", "not_false")
        elif kind == "and":
            self.value = left.value and right.value
        elif kind == "or":
            self.value = left.value or right.value
        else:
            self.value = left.value != right.value

    def __str__(self):
        if self.left is None:
            return self.kind
        return f"({self.left} {self.kind} {self.right})"


def random_formula(rng, n_leaves):
    if n_leaves == 1:
        return Node(rng.choice(LEAVES))
    cut = rng.randint(1, n_leaves - 1)
    return Node(rng.choice(OPS), random_formula(rng, cut), random_formula(rng, n_leaves - cut))


class TreeLSTM(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.leaf = nn.Embedding(len(LEAVES), 2 * dim)
        self.op = nn.Embedding(len(OPS), dim)
        self.gates = nn.Linear(3 * dim, 5 * dim)
        self.out = nn.Linear(dim, 2)

    def ids(self, index):
        return torch.tensor([index], device=self.out.weight.device)

    def compose(self, op, left, right):
        (hl, cl), (hr, cr) = left, right
        i, fl, fr, o, g = self.gates(torch.cat([op, hl, hr], dim=-1)).chunk(5, dim=-1)
        c = torch.sigmoid(i) * torch.tanh(g)
        c = c + torch.sigmoid(fl + 1.0) * cl + torch.sigmoid(fr + 1.0) * cr
        return torch.sigmoid(o) * torch.tanh(c), c

    def encode(self, node):
        if node.left is None:
            h, c = self.leaf(self.ids(LEAVES.index(node.kind))).chunk(2, dim=-1)
            return torch.tanh(h), c
        op = self.op(self.ids(OPS.index(node.kind)))
        return self.compose(op, self.encode(node.left), self.encode(node.right))

    def forward(self, trees):
        roots = [self.encode(tree)[0] for tree in trees]
        return self.out(torch.cat(roots, dim=0))


class FormulaStream:
    """Formulas get a little longer on average as training goes on."""

    def __init__(self, seed, smallest=2, largest=6):
        self.rng = random.Random(seed)
        self.smallest, self.largest = smallest, largest

    def draw(self, progress, n):
        top = self.smallest + 2 + round(progress * (self.largest - self.smallest - 2))
        return [random_formula(self.rng, self.rng.randint(self.smallest, top)) for _ in range(n)]


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    stream = FormulaStream(seed=21)

    model = TreeLSTM(DIM).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=1e-4)

    loss_sum = torch.zeros((), device=device)
    hits = torch.zeros((), device=device)
    seen = 0
    for step in range(1, STEPS + 1):
        trees = stream.draw(step / STEPS, TREES_PER_STEP)
        target = torch.tensor([int(t.value) for t in trees]).to(device)

        logits = model(trees)
        loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()

        loss_sum += loss.detach()
        hits += (logits.argmax(-1) == target).sum()
        seen += len(trees)
        torch_xla.sync()

        if step % LOG_EVERY == 0:
            print(
                f"step {step:3d}  loss {loss_sum.item() / LOG_EVERY:.3f}  "
                f"acc {hits.item() / seen:.2f}  e.g. {trees[0]}"
            )
            loss_sum.zero_()
            hits.zero_()
            seen = 0


if __name__ == "__main__":
    main()
