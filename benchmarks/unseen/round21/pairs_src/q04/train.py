import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Member(nn.Module):
    def __init__(self, d_in, width, n_out):
        super().__init__()
        self.inp = nn.Linear(d_in, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, n_out)

    def forward(self, x):
        h = F.silu(self.inp(x))
        h = h + F.silu(self.mid(h))
        return self.out(h)


class Ensemble:
    """Independent regressors of several widths, trained side by side."""

    def __init__(self, widths, device, lr=0.05):
        self.members = []
        for w in widths:
            net = Member(10, w, 2).to(device)
            optim = torch.optim.SGD(net.parameters(), lr=lr)
            self.members.append((w, net, optim))

    def update(self, x, y, rng):
        losses = {}
        for w, net, optim in rng.sample(self.members, len(self.members)):
            optim.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optim.step()
            losses[w] = loss.detach()
        return losses

    def predict(self, x):
        with torch.no_grad():
            return torch.stack([net(x) for _, net, _ in self.members]).mean(0)


def main():
    torch.manual_seed(4)
    rng = random.Random(11)
    device = torch_xla.device()
    ens = Ensemble([8, 12, 20], device)
    w_true = torch.randn(10, 2)
    for step in range(6):
        x = torch.randn(8, 10)
        y = torch.tanh(x @ w_true)
        losses = ens.update(x.to(device), y.to(device), rng)
        torch_xla.sync()
        print(step, {w: round(v.item(), 4) for w, v in sorted(losses.items())})
    test = ens.predict(torch.randn(4, 10).to(device))
    print("prediction", test.cpu().mean().item())


if __name__ == "__main__":
    main()
