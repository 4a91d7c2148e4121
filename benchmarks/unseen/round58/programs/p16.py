"""Iterative magnitude pruning with weight rewinding on a small MLP-mixer-like classifier."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

PATCHES, CH, CLASSES = 8, 12, 6
BATCH, STEPS = 32, 64
REWIND_AT = 6
PRUNE_AT = {12: 0.4, 20: 0.65, 28: 0.8}


class Patterns:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(CLASSES, PATCHES, CH, generator=self.gen)

    def batch(self, n):
        y = torch.randint(CLASSES, (n,), generator=self.gen)
        x = self.proto[y] + 1.2 * torch.randn(n, PATCHES, CH, generator=self.gen)
        return x, y


class Mixer(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.tokens = nn.Linear(PATCHES, PATCHES)
        self.up, self.down = nn.Linear(CH, hidden), nn.Linear(hidden, CH)
        self.norm = nn.LayerNorm(CH)
        self.head = nn.Linear(CH * PATCHES, CLASSES)

    def forward(self, x):
        x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(x.flatten(1))


class Pruner:
    """Global magnitude masks over the weight matrices."""

    def __init__(self, model):
        self.named = [(n, p) for n, p in model.named_parameters() if p.dim() == 2]
        self.masks = {n: torch.ones_like(p) for n, p in self.named}
        self.total = sum(p.numel() for _, p in self.named)
        self.anchor = None

    @torch.no_grad()
    def remember(self):
        self.anchor = {n: p.detach().clone() for n, p in self.named}

    @torch.no_grad()
    def cut(self, sparsity):
        scores = torch.cat([(p.abs() * self.masks[n]).flatten() for n, p in self.named])
        keep = self.total - int(sparsity * self.total)
        threshold = torch.topk(scores, keep).values[-1]
        for n, p in self.named:
            self.masks[n] = (p.abs() * self.masks[n] >= threshold).to(p.dtype)
            p.copy_(self.anchor[n] * self.masks[n])

    @torch.no_grad()
    def apply(self):
        for n, p in self.named:
            p.mul_(self.masks[n])

    @torch.no_grad()
    def mask_gradients(self):
        for n, p in self.named:
            p.grad.mul_(self.masks[n])

    def density(self):
        return sum(m.sum() for m in self.masks.values()) / self.total


def train_step(model, opt, pruner, x, y):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
    loss.backward()
    pruner.mask_gradients()
    opt.step()
    pruner.apply()
    return loss.detach()


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    acc = (model(x).argmax(-1) == y).float().mean()
    model.train()
    return acc


def main():
    torch.manual_seed(7)
    device = xm.xla_device()
    data = Patterns(seed=3)
    model = Mixer().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 1.0 if s < 48 else 0.2)
    pruner = Pruner(model)
    vx, vy = (t.to(device) for t in data.batch(128))
    xm.mark_step()

    for step in range(1, STEPS + 1):
        x, y = (t.to(device) for t in data.batch(BATCH))
        loss = train_step(model, opt, pruner, x, y)
        xm.mark_step()
        sched.step()
        if step == REWIND_AT:
            pruner.remember()
            xm.mark_step()
        if step in PRUNE_AT:
            pruner.cut(PRUNE_AT[step])
            xm.mark_step()
            print(f"step {step} cut to density {pruner.density().item():.3f}")
        if step % 8 == 0:
            acc = evaluate(model, vx, vy)
            xm.mark_step()
            print(f"step {step} loss {loss.item():.3f} acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
