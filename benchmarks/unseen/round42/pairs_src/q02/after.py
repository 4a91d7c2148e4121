"""Quantile-regression DQN for an inventory-control agent (dueling heads, Polyak target)."""
import copy
import sys

import torch
import torch.nn as nn
import torch_xla

N_ACT, N_Q, OBS, BATCH = 4, 8, 10, 6


class DuelingQuantileNet(nn.Module):
    def __init__(self, obs=OBS, hidden=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs, hidden), nn.LayerNorm(hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU())
        self.adv = nn.Linear(hidden, N_ACT * N_Q)
        self.val = nn.Linear(hidden, N_Q)

    def forward(self, obs):
        h = self.body(obs)
        adv = self.adv(h).view(-1, N_ACT, N_Q)
        val = self.val(h).view(-1, 1, N_Q)
        return val + adv - adv.mean(dim=1, keepdim=True)


def pick(quantiles, action):
    idx = action.view(-1, 1, 1).expand(-1, 1, N_Q)
    return quantiles.gather(1, idx).squeeze(1)


def quantile_huber(pred, target, taus, weight, kappa=1.0):
    # pred, target: [B, N_Q]; u[b, i, j] = target_j - pred_i
    u = target.unsqueeze(1) - pred.unsqueeze(2)
    huber = torch.where(u.abs() <= kappa, 0.5 * u * u, kappa * (u.abs() - 0.5 * kappa))
    rho = (taus.view(1, -1, 1) - (u.detach() < 0).float()).abs() * huber / kappa
    per_sample = rho.mean(dim=(1, 2))
    return (weight * per_sample).mean(), per_sample.detach()


def td_target(online, target, batch, gamma):
    with torch.no_grad():
        next_dist = target(batch["next_obs"])
        next_q = pick(next_dist, next_dist.mean(dim=2).argmax(dim=1))
        not_done = (1.0 - batch["done"]).unsqueeze(1)
        return batch["reward"].unsqueeze(1) + gamma * not_done * next_q


@torch.no_grad()
def polyak(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters()):
        t.mul_(1.0 - tau).add_(o, alpha=tau)


def sample():
    return {
        "obs": torch.randn(BATCH, OBS),
        "next_obs": torch.randn(BATCH, OBS),
        "action": torch.randint(0, N_ACT, (BATCH,)),
        "reward": torch.randn(BATCH),
        "done": (torch.rand(BATCH) < 0.2).float(),
        "weight": torch.rand(BATCH) + 0.5,
    }


def main():
    torch.manual_seed(11)
    dev = torch_xla.device()
    online = DuelingQuantileNet()
    target = copy.deepcopy(online).requires_grad_(False)
    online, target = online.to(dev), target.to(dev)
    taus = ((torch.arange(N_Q) + 0.5) / N_Q).to(dev)
    params = list(online.parameters())
    opt = torch.optim.RMSprop(params, lr=2.5e-4, alpha=0.95, eps=1e-2, centered=True, foreach=False)

    for it in range(4):
        batch = {k: v.to(dev) for k, v in sample().items()}

        goal = td_target(online, target, batch, gamma=0.99)
        pred = pick(online(batch["obs"]), batch["action"])
        loss, prio = quantile_huber(pred, goal, taus, batch["weight"])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_value_(params, 0.5, foreach=False)
        opt.step()
        polyak(target, online, tau=0.005)

        if it == 2:
            live = [loss, prio] + params + list(target.parameters())
            live += [opt.state[p][k] for p in params for k in ("square_avg", "grad_avg")]
            open(sys.argv[1], "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(it, loss.item())


main()
