"""MAML++ on few-shot sinusoid regression: learned per-step inner rates,
multi-step loss, first-order epochs first and second-order epochs after."""
import math

import torch
import torch.nn as nn
import torch_xla
from torch.func import functional_call

HP = {
    "inner_steps": 3, "tasks": 3, "shots": 10, "queries": 15,
    "epochs": 4, "iters_per_epoch": 6, "second_order_from_epoch": 2,
    "meta_lr": 2e-3, "msl_epochs": 4, "val_tasks": 6,
}


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width),
                                    nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x)


class InnerRates(nn.Module):
    """LSLR: one learning rate per tensor and inner step."""

    def __init__(self, names, steps, init=0.02):
        super().__init__()
        self.rates = nn.ParameterDict(
            {n.replace(".", "-"): nn.Parameter(torch.full((steps,), init)) for n in names})

    def apply_update(self, params, grads, k):
        return {n: p - self.rates[n.replace(".", "-")][k] * g
                for (n, p), g in zip(params.items(), grads)}


def sample_tasks(n, hp, gen):
    amp = torch.rand(n, 1, 1, generator=gen) * 4.9 + 0.1
    phase = torch.rand(n, 1, 1, generator=gen) * math.pi
    x = torch.rand(n, hp["shots"] + hp["queries"], 1, generator=gen) * 10 - 5
    y = amp * torch.sin(x + phase)
    return x[:, :hp["shots"]], y[:, :hp["shots"]], x[:, hp["shots"]:], y[:, hp["shots"]:]


def step_importance(epoch, hp):
    k = hp["inner_steps"]
    w = torch.full((k,), 1.0 / k)
    decay = min(epoch, hp["msl_epochs"]) / hp["msl_epochs"]
    w[:-1] -= decay * 0.9 / k
    w[-1] = 1.0 - w[:-1].sum()
    return w


def adapt(net, rates, hp, sx, sy, qx, qy, second_order):
    mse = nn.functional.mse_loss
    fast = dict(net.named_parameters())
    losses = []
    for k in range(hp["inner_steps"]):
        inner = mse(functional_call(net, fast, (sx,)), sy)
        grads = torch.autograd.grad(inner, list(fast.values()), create_graph=second_order)
        fast = rates.apply_update(fast, grads, k)
        losses.append(mse(functional_call(net, fast, (qx,)), qy))
    return torch.stack(losses)


def validate(net, rates, hp, batch):
    scores = []
    for task in zip(*batch):
        scores.append(adapt(net, rates, hp, *task, second_order=False)[-1].detach())
        torch_xla.sync()
    return torch.stack(scores).mean()


def run(hp):
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(17)
    device = torch_xla.device()
    net = Net().to(device)
    rates = InnerRates([n for n, _ in net.named_parameters()], hp["inner_steps"]).to(device)
    meta = torch.optim.Adam([*net.parameters(), *rates.parameters()], lr=hp["meta_lr"])
    val = [t.to(device) for t in sample_tasks(hp["val_tasks"], hp, gen)]
    torch_xla.sync()

    for epoch in range(hp["epochs"]):
        second = epoch >= hp["second_order_from_epoch"]
        weight = step_importance(epoch, hp).to(device)
        running = torch.zeros((), device=device)
        for _ in range(hp["iters_per_epoch"]):
            batch = [t.to(device) for t in sample_tasks(hp["tasks"], hp, gen)]
            meta.zero_grad()
            loss = sum((weight * adapt(net, rates, hp, *task, second)).sum() for task in zip(*batch))
            loss = loss / hp["tasks"]
            loss.backward()
            meta.step()
            running += loss.detach() / hp["iters_per_epoch"]
            torch_xla.sync()
        score = validate(net, rates, hp, val)
        print(f"epoch {epoch} order {2 if second else 1} train {running.item():.4f} val {score.item():.4f}")


if __name__ == "__main__":
    run(HP)
