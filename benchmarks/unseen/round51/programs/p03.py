"""Learning per-parameter step sizes online (hypergradient descent).

The weights of a small regressor are updated by a differentiable SGD rule (first
order) whose log step sizes and decay are trained on a held-out batch.
"""
import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
import torch_xla

torch.manual_seed(11)


class SensorStream:
    """Drifting calibration task: y = a(t) * sin(w x) + b x0 * x1."""

    def __init__(self, dim=6, seed=5):
        self.g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(dim, generator=self.g)
        self.dim = dim
        self.t = 0

    def batch(self, n):
        x = torch.randn(n, self.dim, generator=self.g)
        amp = 1.0 + 0.3 * math.sin(self.t / 10)
        y = amp * torch.sin(x @ self.w) + 0.5 * x[:, 0] * x[:, 1]
        y = y + 0.05 * torch.randn(n, generator=self.g)
        return x, y.unsqueeze(1)

    def tick(self):
        self.t += 1


def init_weights(dim, hidden, device):
    w = OrderedDict()
    w["fc1.weight"] = torch.randn(hidden, dim) / math.sqrt(dim)
    w["fc1.bias"] = torch.zeros(hidden)
    w["fc2.weight"] = torch.randn(1, hidden) / math.sqrt(hidden)
    w["fc2.bias"] = torch.zeros(1)
    return OrderedDict((k, v.to(device).requires_grad_(True)) for k, v in w.items())


def forward(weights, x):
    h = torch.tanh(F.linear(x, weights["fc1.weight"], weights["fc1.bias"]))
    return F.linear(h, weights["fc2.weight"], weights["fc2.bias"])


class LearnedSGD(torch.nn.Module):
    def __init__(self, names, lr=0.05, decay=1e-3):
        super().__init__()
        self.log_lr = torch.nn.ParameterDict(
            {n.replace(".", "_"): torch.nn.Parameter(torch.tensor(math.log(lr)))
             for n in names})
        self.log_decay = torch.nn.Parameter(torch.tensor(math.log(decay)))

    def forward(self, weights, grads):
        decay = self.log_decay.exp()
        new = OrderedDict()
        for (name, w), g in zip(weights.items(), grads):
            lr = self.log_lr[name.replace(".", "_")].exp()
            new[name] = w - lr * (g + decay * w)
        return new


class OnlineLearner:
    def __init__(self, stream, hidden, device):
        self.stream = stream
        self.device = device
        self.weights = init_weights(stream.dim, hidden, device)
        self.rule = LearnedSGD(self.weights.keys()).to(device)
        self.hyper_opt = torch.optim.SGD(self.rule.parameters(), lr=0.05, momentum=0.9)

    def to_device(self, batch):
        return tuple(t.to(self.device) for t in batch)

    def step(self):
        x, y = self.to_device(self.stream.batch(32))
        xv, yv = self.to_device(self.stream.batch(32))

        weights = OrderedDict((k, v.clone()) for k, v in self.weights.items())
        train_loss = F.mse_loss(forward(weights, x), y)
        grads = torch.autograd.grad(train_loss, list(weights.values()))
        weights = self.rule(weights, grads)

        val_loss = F.mse_loss(forward(weights, xv), yv)
        self.hyper_opt.zero_grad()
        val_loss.backward(retain_graph=True)
        self.hyper_opt.step()

        self.weights = weights
        self.stream.tick()
        return train_loss.detach(), val_loss.detach()

    @torch.no_grad()
    def step_sizes(self):
        return {k: v.exp().item() for k, v in self.rule.log_lr.items()}


def main(steps=18, log_every=9):
    device = torch_xla.device()
    learner = OnlineLearner(SensorStream(), hidden=12, device=device)
    history = []
    for it in range(steps):
        train_loss, val_loss = learner.step()
        torch_xla.sync()
        history.append((train_loss, val_loss))
        if (it + 1) % log_every == 0:
            tr = sum(h[0].item() for h in history[-log_every:]) / log_every
            va = sum(h[1].item() for h in history[-log_every:]) / log_every
            print(f"it {it + 1:3d}  train {tr:.4f}  val {va:.4f}")
    sizes = learner.step_sizes()
    print("  ".join(f"{k}={v:.4f}" for k, v in sizes.items()))


if __name__ == "__main__":
    main()
