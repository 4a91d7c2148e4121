"""Feed ranking with four objectives; gradients of the shared layers are de-conflicted with PCGrad."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

USERS, POSTS, AUTHORS = 200, 400, 50
TASKS = ("click", "like", "share", "dwell")
BATCH = 64
STEPS = 20


def make_feed(n, seed=13):
    g = torch.Generator().manual_seed(seed)
    user = torch.randint(0, USERS, (n,), generator=g)
    post = torch.randint(0, POSTS, (n,), generator=g)
    author = post % AUTHORS
    taste = torch.randn(USERS, 4, generator=g)
    topic = torch.randn(POSTS, 4, generator=g)
    s = (taste[user] * topic[post]).sum(-1)
    click = (s + torch.randn(n, generator=g) > 0).float()
    like = click * (s > 1.0).float()
    share = (topic[post, 0] - s > 0.5).float()
    dwell = F.relu(s) + 0.2 * torch.rand(n, generator=g)
    ctx = torch.randn(n, 3, generator=g)
    return TensorDataset(user, post, author, ctx, torch.stack([click, like, share, dwell], 1))


class SharedBottom(nn.Module):
    def __init__(self, d=8, hidden=24):
        super().__init__()
        self.user = nn.Embedding(USERS, d)
        self.post = nn.Embedding(POSTS, d)
        self.author = nn.Embedding(AUTHORS, d)
        self.shared = nn.Sequential(nn.Linear(3 * d + 3, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.towers = nn.ModuleDict({t: nn.Linear(hidden, 1) for t in TASKS})

    def forward(self, user, post, author, ctx):
        x = torch.cat([self.user(user), self.post(post), self.author(author), ctx], -1)
        h = self.shared(x)
        return {t: head(h).squeeze(-1) for t, head in self.towers.items()}


def task_losses(pred, target):
    losses = []
    for i, name in enumerate(TASKS):
        y = target[:, i]
        if name == "dwell":
            losses.append(F.smooth_l1_loss(pred[name], y))
        else:
            losses.append(F.binary_cross_entropy_with_logits(pred[name], y))
    return losses


class PCGrad:
    """Gradient surgery over the shared parameters; the towers get their plain gradients."""

    def __init__(self, shared, own):
        self.shared = list(shared)
        self.own = list(own)

    def _flat(self, loss):
        grads = torch.autograd.grad(loss, self.shared, retain_graph=True)
        return torch.cat([g.reshape(-1) for g in grads])

    @staticmethod
    def _project(grads):
        merged = torch.zeros_like(grads[0])
        norms = {id(g): g.dot(g) + 1e-12 for g in grads}
        others = list(grads)
        for g in grads:
            cur = g.clone()
            random.shuffle(others)
            for o in others:
                if o is g:
                    continue
                coef = torch.clamp(cur.dot(o), max=0.0) / norms[id(o)]
                cur = cur - coef * o
            merged = merged + cur
        return merged

    def backward(self, losses):
        grads = [self._flat(loss) for loss in losses]
        own = torch.autograd.grad(sum(losses), self.own, retain_graph=False)
        for p, g in zip(self.own, own):
            p.grad = g
        merged, at = self._project(grads), 0
        for p in self.shared:
            p.grad = merged[at:at + p.numel()].view_as(p)
            at += p.numel()


def main():
    random.seed(13)
    torch.manual_seed(13)
    device = torch_xla.device()
    model = SharedBottom().to(device)
    surgery = PCGrad(model.shared.parameters(),
                     [p for n, p in model.named_parameters() if not n.startswith("shared")])
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    loader = DataLoader(make_feed(BATCH * STEPS), batch_size=BATCH, shuffle=True, drop_last=True)

    total = torch.zeros(len(TASKS), device=device)
    for step, batch in enumerate(loader, 1):
        user, post, author, ctx, target = (t.to(device) for t in batch)
        with torch_xla.step():
            losses = task_losses(model(user, post, author, ctx), target)
            surgery.backward(losses)
            opt.step()
            opt.zero_grad()
            total = total + torch.stack([l.detach() for l in losses])
        if step % 5 == 0:
            mean = (total.cpu() / 5).tolist()
            print(f"step {step} " + " ".join(f"{n} {v:.3f}" for n, v in zip(TASKS, mean)))
            total = torch.zeros(len(TASKS), device=device)


if __name__ == "__main__":
    main()
