"""Deep ensemble for uncertainty: members are trained side by side in one step."""
import random
import torch
import torch.nn as nn
import torch_xla

WIDTHS = {"narrow": 24, "medium": 32, "wide": 48}


def member(width):
    return nn.Sequential(nn.Linear(13, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))


def nll(out, y):
    mean, raw = out[:, 0], out[:, 1]
    var = nn.functional.softplus(raw) + 1e-4
    return (0.5 * torch.log(var) + 0.5 * (y - mean) ** 2 / var).mean()


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch_xla.device()
    nets = {k: member(w).to(device) for k, w in WIDTHS.items()}
    opts = {k: torch.optim.SGD(n.parameters(), lr=1e-2, weight_decay=1e-3) for k, n in nets.items()}
    X, Y = torch.randn(512, 13), torch.randn(512)
    for step in range(6):
        order = list(nets)
        rng.shuffle(order)
        losses = {}
        for k in order:
            idx = torch.randint(0, 512, (32,))
            x, y = X[idx].to(device), Y[idx].to(device)
            opts[k].zero_grad()
            losses[k] = nll(nets[k](x), y)
            losses[k].backward()
            opts[k].step()
        torch_xla.sync()


main()
