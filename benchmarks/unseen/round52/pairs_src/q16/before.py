"""Quantile-regression DQN for elevator dispatch, double-Q selection."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GAMMA = 0.97
TAU = 0.01


class NoisyLinear(nn.Module):
    def __init__(self, n_in, n_out, sigma=0.4):
        super().__init__()
        bound = n_in ** -0.5
        self.mu = nn.Parameter(torch.empty(n_out, n_in).uniform_(-bound, bound))
        self.sigma = nn.Parameter(torch.full((n_out, n_in), sigma * bound))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x, noise):
        e_in, e_out = noise
        return F.linear(x, self.mu + self.sigma * torch.outer(e_out, e_in),
                        self.bias)


class QuantileNet(nn.Module):
    def __init__(self, obs=9, actions=4, quantiles=7, width=16):
        super().__init__()
        self.actions, self.quantiles = actions, quantiles
        self.floor = nn.Linear(obs, width)
        self.norm = nn.LayerNorm(width)
        self.value = NoisyLinear(width, quantiles)
        self.adv = NoisyLinear(width, actions * quantiles)

    def forward(self, obs, noise):
        h = F.silu(self.norm(self.floor(obs)))
        v = self.value(h, noise[0]).unsqueeze(1)
        a = self.adv(h, noise[1]).view(-1, self.actions, self.quantiles)
        return v + a - a.mean(1, keepdim=True)


def quantile_huber(pred, target, kappa=1.0):
    n = pred.shape[-1]
    tau = (torch.arange(n, device=pred.device) + 0.5) / n
    u = target[:, None, :] - pred[:, :, None]
    huber = torch.where(u.abs() <= kappa, 0.5 * u * u,
                        kappa * (u.abs() - 0.5 * kappa))
    weight = torch.abs(tau[None, :, None] - (u.detach() < 0).float())
    return (weight * huber / kappa).mean(2).sum(1)


def pick(q, action):
    index = action[:, None, None].expand(-1, 1, q.shape[-1])
    return q.gather(1, index).squeeze(1)


def bootstrap(online, target, batch, noise):
    obs, action, reward, done, nxt = batch
    best = online(nxt, noise).mean(-1).argmax(1)
    z = pick(target(nxt, noise), best)
    return reward[:, None] + GAMMA * (1.0 - done[:, None]) * z


def train_step(online, target, opt, batch, noise, weight):
    z = pick(online(batch[0], noise), batch[1])
    with torch.no_grad():
        goal = bootstrap(online, target, batch, noise)
    per_item = quantile_huber(z, goal)
    loss = (weight * per_item).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0, foreach=False)
    opt.step()
    with torch.no_grad():
        for pt, po in zip(target.parameters(), online.parameters()):
            pt.mul_(1.0 - TAU).add_(po, alpha=TAU)
    return loss.detach(), per_item.detach()


def scaled(g, n):
    x = torch.randn(n, generator=g)
    return x.sign() * x.abs().sqrt()


def make_batch(seed, dev, n=8):
    g = torch.Generator().manual_seed(seed)
    batch = (torch.randn(n, 9, generator=g),
             torch.randint(0, 4, (n,), generator=g),
             torch.randn(n, generator=g),
             (torch.rand(n, generator=g) < 0.2).float(),
             torch.randn(n, 9, generator=g))
    noise = [(scaled(g, 16), scaled(g, 7)), (scaled(g, 16), scaled(g, 28))]
    weight = 0.5 + 0.5 * torch.rand(n, generator=g)
    return ([t.to(dev) for t in batch],
            [(a.to(dev), b.to(dev)) for a, b in noise], weight.to(dev))


def pending(online, target, opt, extra):
    params = list(online.parameters())
    out = params + list(target.parameters()) + [p.grad for p in params]
    for key in ("square_avg", "grad_avg"):
        out += [opt.state[p][key] for p in params]
    return out + list(extra)


def main():
    torch.manual_seed(5)
    dev = torch_xla.device()
    online, target = QuantileNet().to(dev), QuantileNet().to(dev)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.RMSprop(online.parameters(), lr=5e-4, centered=True,
                              foreach=False)
    for step in range(4):
        data = make_batch(step, dev)
        torch_xla.sync()
        out = train_step(online, target, opt, *data)
        if step == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(online, target, opt, out))
            with open(sys.argv[1], "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, round(out[0].item(), 6))


if __name__ == "__main__":
    main()
