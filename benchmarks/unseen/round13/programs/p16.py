import math
from collections import defaultdict

import torch
import torch.nn as nn
import torch_xla


class Callback:
    def on_fit_start(self, trainer): ...
    def on_after_backward(self, trainer): ...
    def on_step_end(self, trainer): ...


class AutoClip(Callback):
    """Clip to a percentile of the gradient norms (Seetharaman et al. 2020)."""

    def __init__(self, percentile=0.3):
        self.q = percentile
        self.grad_history = []

    def on_after_backward(self, trainer):
        params = [p for p in trainer.model.parameters() if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in params]))
        self.grad_history.append(norm.detach())
        clip_value = torch.quantile(torch.stack(self.grad_history), self.q)
        scale = (clip_value / (norm + 1e-6)).clamp(max=1.0)
        for p in params:
            p.grad.mul_(scale)
        trainer.logs["clip"] = clip_value


class WarmupCosine(Callback):
    def __init__(self, warmup, total):
        self.warmup, self.total = warmup, total

    def on_fit_start(self, trainer):
        self.base = [g["lr"] for g in trainer.optimizer.param_groups]

    def on_step_end(self, trainer):
        s = trainer.global_step
        f = (s + 1) / (self.warmup + 1) if s < self.warmup else 0.5 * (1 + math.cos(math.pi * (s - self.warmup) / self.total))
        for g, b in zip(trainer.optimizer.param_groups, self.base):
            g["lr"] = b * f


class PrintLogs(Callback):
    def __init__(self, every):
        self.every = every

    def on_step_end(self, trainer):
        if trainer.global_step % self.every == 0:
            print(f"step {trainer.global_step} " + " ".join(f"{k}={v.item():.4f}" for k, v in trainer.logs.items()))


class SeriesDecomposition(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel, stride=1, padding=kernel // 2, count_include_pad=False)

    def forward(self, x):
        trend = self.pool(x)
        return x - trend, trend


class DLinearGRU(nn.Module):
    """Linear trend branch, convolutional seasonal branch, shared probabilistic output."""

    def __init__(self, channels, context, horizon, hidden=24):
        super().__init__()
        self.decomp = SeriesDecomposition(5)
        self.trend = nn.Linear(context, horizon)
        self.season = nn.Sequential(
            nn.Conv1d(channels, hidden, 5, padding=2), nn.GELU(),
            nn.Conv1d(hidden, hidden, 5, padding=4, dilation=2), nn.GELU(),
            nn.Conv1d(hidden, channels, 1), nn.Linear(context, horizon),
        )
        self.log_scale = nn.Linear(context, horizon)

    def forward(self, x):
        seasonal, trend = self.decomp(x)
        return self.season(seasonal) + self.trend(trend), self.log_scale(x).clamp(-4, 4)


def laplace_nll(mu, log_b, y):
    return (log_b + (y - mu).abs() * torch.exp(-log_b)).mean()


class Trainer:
    def __init__(self, model, optimizer, callbacks, device):
        self.model, self.optimizer, self.callbacks, self.device = model, optimizer, callbacks, device
        self.global_step = 0
        self.logs = defaultdict(lambda: torch.zeros(()))

    def _call(self, hook):
        for cb in self.callbacks:
            getattr(cb, hook)(self)

    def fit(self, batches):
        self._call("on_fit_start")
        self.model.train()
        for past, future in batches:
            past, future = past.to(self.device), future.to(self.device)
            mu, log_b = self.model(past)
            loss = laplace_nll(mu, log_b, future)
            self.optimizer.zero_grad()
            loss.backward()
            self._call("on_after_backward")
            self.optimizer.step()
            self.logs["nll"] = loss.detach()
            torch_xla.sync()
            self.global_step += 1
            self._call("on_step_end")


def load_series(steps, batch, channels, context, horizon):
    t = torch.arange(3000).float()
    series = torch.stack([torch.sin(t / (6 + 3 * c)) + 0.4 * torch.sin(t / 40 + c) for c in range(channels)])
    series += 0.1 * torch.randn_like(series)
    for _ in range(steps):
        start = torch.randint(0, 3000 - context - horizon, (batch,))
        win = torch.stack([series[:, s:s + context + horizon] for s in start.tolist()])
        yield win[..., :context], win[..., context:]


if __name__ == "__main__":
    torch.manual_seed(7)
    dev = torch_xla.device()
    net = DLinearGRU(channels=3, context=32, horizon=8).to(dev)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.5)
    trainer = Trainer(net, opt, [AutoClip(0.3), WarmupCosine(4, 40), PrintLogs(5)], dev)
    trainer.fit(load_series(15, 16, 3, 32, 8))
