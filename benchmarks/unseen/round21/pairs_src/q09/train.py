import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Denoiser(nn.Module):
    def __init__(self, dim=8, hidden=24):
        super().__init__()
        self.time = nn.Linear(1, hidden)
        self.inp = nn.Linear(dim, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, dim)

    def forward(self, x, t):
        h = F.silu(self.inp(x) + self.time(t))
        return self.out(F.silu(self.mid(h)))


class WeightAverage:
    def __init__(self, model, decay=0.9, every=4):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.every = every

    @torch.no_grad()
    def step(self, i, model):
        if (i + 1) % self.every:
            return
        for avg, p in zip(self.model.parameters(), model.parameters()):
            avg.lerp_(p.detach(), 1 - self.decay)


def noise_batch(n, dim):
    x0 = torch.randn(n, dim) * 0.5 + 1
    t = torch.rand(n, 1)
    eps = torch.randn(n, dim)
    xt = torch.cos(t * 1.57) * x0 + torch.sin(t * 1.57) * eps
    return xt, t, eps


def main():
    torch.manual_seed(6)
    device = torch_xla.device()
    model = Denoiser().to(device)
    average = WeightAverage(model)
    optim = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for i in range(8):
        xt, t, eps = (v.to(device) for v in noise_batch(12, 8))
        optim.zero_grad()
        loss = F.mse_loss(model(xt, t), eps)
        loss.backward()
        optim.step()
        average.step(i, model)
        torch_xla.sync()
        print(i, round(loss.item(), 4))


if __name__ == "__main__":
    main()
