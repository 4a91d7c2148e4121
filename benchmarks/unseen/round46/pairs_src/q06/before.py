"""Advantage actor-critic on vectorised elevator-dispatch rollouts (GAE, normalised advantages)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ENVS, HORIZON, OBS, ACTIONS, HID = 4, 6, 9, 5, 16
GAMMA, LAM = 0.98, 0.9


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(OBS, HID), nn.ELU(), nn.Linear(HID, HID), nn.ELU())
        self.pi = nn.Linear(HID, ACTIONS)
        self.v = nn.Sequential(nn.Linear(HID, HID // 2), nn.ELU(), nn.Linear(HID // 2, 1))

    def forward(self, obs):
        z = self.torso(obs)
        return self.pi(z), self.v(z).squeeze(-1)


def gae(rewards, values, bootstrap, dones):
    """rewards, values, dones: [T, N]; bootstrap: [N]."""
    adv = []
    running = torch.zeros_like(bootstrap)
    next_value = bootstrap
    for t in reversed(range(HORIZON)):
        keep = 1.0 - dones[t]
        delta = rewards[t] + GAMMA * keep * next_value - values[t]
        running = delta + GAMMA * LAM * keep * running
        adv.append(running)
        next_value = values[t]
    return torch.stack(adv[::-1], dim=0)


def loss_fn(policy, obs, last_obs, actions, rewards, dones):
    logits, values = policy(obs)
    with torch.no_grad():
        _, bootstrap = policy(last_obs)
    adv = gae(rewards, values.detach(), bootstrap, dones)
    returns = adv + values.detach()

    norm_adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    logp_all = F.log_softmax(logits, dim=-1)
    logp = logp_all.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    pg = -(logp * norm_adv).mean()
    value = F.smooth_l1_loss(values, returns, beta=2.0)
    entropy = -(logp_all.exp() * logp_all).sum(dim=-1).mean()
    return pg + 0.5 * value - 0.01 * entropy


def main(out):
    device = xm.xla_device()
    torch.manual_seed(40)
    policy = Policy().to(device)
    opt = torch.optim.RMSprop(policy.parameters(), lr=7e-4, alpha=0.99, eps=1e-5, foreach=False)
    gen = torch.Generator().manual_seed(9)
    for update in range(4):
        obs = torch.randn(HORIZON, ENVS, OBS, generator=gen)
        last = torch.randn(ENVS, OBS, generator=gen)
        actions = torch.randint(0, ACTIONS, (HORIZON, ENVS), generator=gen)
        rewards = torch.randn(HORIZON, ENVS, generator=gen)
        dones = (torch.rand(HORIZON, ENVS, generator=gen) < 0.1).float()
        args = [t.to(device) for t in (obs, last, actions, rewards, dones)]
        loss = loss_fn(policy, *args)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5, foreach=False)
        opt.step()
        if update == 3:
            live = list(policy.parameters())
            live += [opt.state[p]["square_avg"] for p in policy.parameters()] + [loss]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        xm.mark_step()
        print(update, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
