import math
from collections import OrderedDict
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Regressor(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.l1 = nn.Linear(1, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, 1)

    def forward(self, x, weights=None):
        w = weights or OrderedDict(self.named_parameters())
        x = torch.tanh(F.linear(x, w['l1.weight'], w['l1.bias']))
        x = torch.tanh(F.linear(x, w['l2.weight'], w['l2.bias']))
        return F.linear(x, w['l3.weight'], w['l3.bias'])


class SineTasks:
    def __init__(self, shots, seed):
        self.shots = shots
        self.g = torch.Generator().manual_seed(seed)

    def sample(self):
        amp = torch.rand(1, generator=self.g) * 4.5 + 0.5
        phase = torch.rand(1, generator=self.g) * math.pi
        x = torch.rand(2, self.shots, 1, generator=self.g) * 10 - 5
        y = amp * torch.sin(x - phase)
        return x, y


class MAML:
    def __init__(self, inner_lr=0.02, outer_lr=1e-3, first_order=False):
        self.device = xm.xla_device()
        self.net = Regressor().to(self.device)
        self.inner_lr = inner_lr
        self.first_order = first_order
        self.opt = torch.optim.Adam(self.net.parameters(), lr=outer_lr)

    def adapt(self, x, y, steps):
        fast = OrderedDict(self.net.named_parameters())
        for _ in range(steps):
            loss = F.mse_loss(self.net(x, fast), y)
            grads = torch.autograd.grad(loss, fast.values(), create_graph=not self.first_order)
            fast = OrderedDict((k, v - self.inner_lr * g) for (k, v), g in zip(fast.items(), grads))
        return fast

    def meta_step(self, tasks, steps):
        self.opt.zero_grad()
        outer = 0
        for x, y in tasks:
            x, y = x.to(self.device), y.to(self.device)
            fast = self.adapt(x[0], y[0], steps)
            outer = outer + F.mse_loss(self.net(x[1], fast), y[1])
        outer = outer / len(tasks)
        outer.backward()
        self.opt.step()
        xm.mark_step()
        return outer


def inner_steps(it):
    # start short, adapt longer when the outer loop is stable
    return 1 if it < 6 else 2


def main(iters=12, meta_batch=2):
    torch.manual_seed(0)
    sampler = SineTasks(shots=10, seed=7)
    maml = MAML()
    for it in range(iters):
        loss = maml.meta_step([sampler.sample() for _ in range(meta_batch)], inner_steps(it))
        if it % 4 == 3:
            print('iter', it, 'outer loss', loss.item())


if __name__ == '__main__':
    main()
