import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.func import functional_call

WAYS, SHOTS, QUERIES, IMG = 3, 2, 3, 8


class Conv3(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, 2, 1)
        self.c2 = nn.Conv2d(width, width, 3, 2, 1)
        self.fc = nn.Linear(width * 4, WAYS)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        return self.fc(x.flatten(1))


class Tasks:
    def __init__(self, n_classes=20, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(n_classes, 1, IMG, IMG, generator=self.g)

    def batch(self, n):
        xs, ys = [], []
        label = torch.arange(WAYS).repeat_interleave(SHOTS + QUERIES).view(WAYS, -1)
        for _ in range(n):
            cls = torch.randperm(len(self.proto), generator=self.g)[:WAYS]
            x = self.proto[cls].unsqueeze(1).repeat(1, SHOTS + QUERIES, 1, 1, 1)
            xs.append(x + 0.5 * torch.randn(x.shape, generator=self.g))
            ys.append(label)
        x, y = torch.stack(xs), torch.stack(ys)
        return (x[:, :, :SHOTS].flatten(1, 2), y[:, :, :SHOTS].flatten(1),
                x[:, :, SHOTS:].flatten(1, 2), y[:, :, SHOTS:].flatten(1))


def adapt(model, params, x, y, inner_lr, inner_steps):
    for _ in range(inner_steps):
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        params = {k: p - inner_lr[k] * g for (k, p), g in zip(params.items(), grads)}
    return params


def meta_step(model, inner_lr, opt, batch, inner_steps):
    params = dict(model.named_parameters())
    losses, hits = [], []
    for sx, sy, qx, qy in zip(*batch):
        fast = adapt(model, params, sx, sy, inner_lr, inner_steps)
        logits = functional_call(model, fast, (qx,))
        losses.append(F.cross_entropy(logits, qy))
        hits.append((logits.argmax(1) == qy).float().mean())
    loss = torch.stack(losses).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach(), torch.stack(hits).mean()


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value):
        self.sum = self.sum + value
        self.count += 1

    def mean(self):
        return float(self.sum) / max(1, self.count)


def main(epochs=3, iters=4, meta_batch=2, inner_steps=1):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Conv3().to(device)
    inner_lr = {k: nn.Parameter(torch.full((), 0.1, device=device)) for k, _ in model.named_parameters()}
    opt = torch.optim.SGD([*model.parameters(), *inner_lr.values()], lr=0.01, momentum=0.9)
    tasks = Tasks()
    meters = {"loss": Meter(), "acc": Meter()}
    torch_xla.sync()
    for epoch in range(epochs):
        for m in meters.values():
            m.reset()
        for it in range(iters):
            batch = [t.to(device) for t in tasks.batch(meta_batch)]
            loss, acc = meta_step(model, inner_lr, opt, batch, inner_steps)
            meters["loss"].update(loss)
            meters["acc"].update(acc)
            torch_xla.sync()
        print(f"epoch {epoch} loss {meters['loss'].mean():.4f} acc {meters['acc'].mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
