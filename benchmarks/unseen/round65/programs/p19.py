"""Online sinusoid regression with learned per-layer step sizes (hypergradient descent)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.func import functional_call

SHOTS = 8
STEPS = 16


class DriftingSine:
    """The phase and the amplitude wander slowly; each call gives a support and a query set."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.phase, self.amp = 0.0, 1.0

    def draw(self):
        x = torch.rand(SHOTS, 1, generator=self.g) * 2 * math.pi - math.pi
        return x, self.amp * torch.sin(x + self.phase)

    def next(self):
        self.phase += 0.08
        self.amp = 1.0 + 0.3 * math.sin(3 * self.phase)
        return self.draw(), self.draw()


def build_net(width=8):
    return nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))


class StepSizes(nn.Module):
    def __init__(self, names, init=0.05):
        super().__init__()
        self.keys = {n: i for i, n in enumerate(names)}
        self.log_lr = nn.Parameter(torch.full((len(self.keys),), math.log(init)))

    def forward(self):
        rates = self.log_lr.exp()
        return {n: rates[i] for n, i in self.keys.items()}


def adapt(net, weights, rates, x, y):
    loss = F.mse_loss(functional_call(net, weights, (x,)), y)
    grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
    return {n: w - rates[n] * g for (n, w), g in zip(weights.items(), grads)}


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    stream = DriftingSine(41)
    net = build_net().to(device)
    sizes = StepSizes([n for n, _ in net.named_parameters()]).to(device)
    optimizer = torch.optim.SGD(sizes.parameters(), lr=0.02, momentum=0.5)

    weights = {n: p.detach().clone().requires_grad_() for n, p in net.named_parameters()}
    average = torch.zeros((), device=device)
    for step in range(STEPS):
        (xs, ys), (xq, yq) = stream.next()
        weights = adapt(net, weights, sizes(), xs.to(device), ys.to(device))
        query = F.mse_loss(functional_call(net, weights, (xq.to(device),)), yq.to(device))

        optimizer.zero_grad()
        query.backward(retain_graph=True, inputs=[sizes.log_lr])
        nn.utils.clip_grad_norm_(sizes.parameters(), 1.0)
        optimizer.step()
        average = 0.9 * average + 0.1 * query.detach()
        torch_xla.sync()
        if step % 4 == 3:
            rates = sizes.log_lr.detach().exp().mean().item()
            print(f"step {step + 1}: query {average.item():.4f} mean step size {rates:.4f}")


if __name__ == "__main__":
    main()
