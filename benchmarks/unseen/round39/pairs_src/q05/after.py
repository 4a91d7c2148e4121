"""Deep hedging of a short call with proportional costs; CVaR objective with a learned quantile."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STEPS = 4
COST = 2e-3
ALPHA = 0.9


class Hedger(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.cell = nn.Linear(3 + hidden, hidden)
        self.update = nn.Linear(3 + hidden, hidden)
        self.position = nn.Linear(hidden, 1)
        self.quantile = nn.Parameter(torch.zeros(()))
        self.hidden = hidden

    def step(self, spot, left, pos, h):
        x = torch.stack([torch.log(spot), torch.full_like(spot, left), pos], dim=1)
        xh = torch.cat([x, h], dim=1)
        z = torch.sigmoid(self.update(xh))
        h = (1 - z) * h + z * torch.tanh(self.cell(xh))
        return torch.sigmoid(self.position(h)).squeeze(1), h


def rollout(model, paths, strike=1.0):
    n = paths.shape[0]
    pos = torch.zeros(n, device=paths.device)
    h = torch.zeros(n, model.hidden, device=paths.device)
    gains = torch.zeros(n, device=paths.device)
    costs = torch.zeros(n, device=paths.device)
    for t in range(STEPS):
        spot = paths[:, t]
        new, h = model.step(spot, 1.0 - t / STEPS, pos, h)
        costs = costs + COST * spot * (new - pos).abs()
        gains = gains + new * (paths[:, t + 1] - spot)
        pos = new
    payoff = F.relu(paths[:, STEPS] - strike)
    return gains - costs - payoff, costs


def cvar(pnl, quantile):
    return quantile + F.relu(-pnl - quantile).mean() / (1 - ALPHA)


def train_step(model, opt, paths):
    pnl, costs = rollout(model, paths)
    loss = cvar(pnl, model.quantile)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach(), costs.mean().detach()


def live(model, opt, extra):
    ts = list(extra)
    for p in model.parameters():
        ts.append(p)
        for v in opt.state[p].values():
            if torch.is_tensor(v) and v.device.type == "xla":
                ts.append(v)
    return ts


def simulate(n, sigma=0.2):
    z = torch.randn(n, STEPS) * sigma / STEPS ** 0.5
    return torch.exp(F.pad(torch.cumsum(z - 0.5 * sigma ** 2 / STEPS, dim=1), (1, 0)))


def main(out):
    torch.manual_seed(17)
    dev = xm.xla_device()
    model = Hedger().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95, momentum=0.9,
                              centered=True)
    torch_xla.sync()
    for it in range(4):
        paths = simulate(16).to(dev)
        loss, cost = train_step(model, opt, paths)
        if it == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(model, opt, [loss, cost]))
            open(out, "w").write(text)
        torch_xla.sync()
        print(it, loss.item(), cost.item())


if __name__ == "__main__":
    main(sys.argv[1])
