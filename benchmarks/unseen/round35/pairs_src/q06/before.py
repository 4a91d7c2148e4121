"""Recurrent PPO update for a greenhouse climate controller (continuous valve settings)."""
import math
import sys

import torch
import torch.nn as nn
import torch_xla

T, ENVS, OBS, ACT, HID = 3, 6, 7, 2, 12
GAMMA, LAM, CLIP, VF_COEF, ENT_COEF = 0.98, 0.95, 0.2, 0.5, 0.003


class RecurrentPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(OBS, HID)
        self.mu = nn.Linear(HID, ACT)
        self.log_std = nn.Parameter(torch.full((ACT,), -0.5))
        self.value = nn.Linear(HID, 1)

    def forward(self, obs, h, starts):
        keep = (1.0 - starts).unsqueeze(-1)
        hs = []
        for t in range(obs.shape[0]):
            h = self.cell(obs[t], h * keep[t])
            hs.append(h)
        hs = torch.stack(hs)
        return self.mu(hs), self.value(hs).squeeze(-1)


def log_prob(mu, log_std, act):
    z = (act - mu) * torch.exp(-log_std)
    return (-0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)


def gae(rewards, values, last_value, starts, last_done):
    """starts[t] is 1 where the observation of step t is the first of an episode."""
    adv = []
    running = torch.zeros_like(last_value)
    for t in reversed(range(T)):
        if t == T - 1:
            alive, nxt = 1.0 - last_done, last_value
        else:
            alive, nxt = 1.0 - starts[t + 1], values[t + 1]
        delta = rewards[t] + GAMMA * nxt * alive - values[t]
        running = delta + GAMMA * LAM * alive * running
        adv.insert(0, running)
    adv = torch.stack(adv)
    return adv, adv + values


def update(policy, opt, roll):
    obs, act, old_logp, old_val, rew, starts, last_val, last_done, h0 = roll
    adv, ret = gae(rew, old_val, last_val, starts, last_done)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)

    mu, val = policy(obs, h0, starts)
    ratio = torch.exp(log_prob(mu, policy.log_std, act) - old_logp)
    surr = torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv)
    pi_loss = -surr.mean()

    val_clip = old_val + (val - old_val).clamp(-CLIP, CLIP)
    v_loss = 0.5 * torch.max((val - ret).pow(2), (val_clip - ret).pow(2)).mean()
    entropy = (policy.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()

    loss = pi_loss + VF_COEF * v_loss - ENT_COEF * entropy
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    opt.step()
    clip_frac = ((ratio.detach() - 1.0).abs() > CLIP).float().mean()
    return pi_loss.detach(), v_loss.detach(), clip_frac


def make_rollout(gen, device):
    r = lambda *s: torch.randn(*s, generator=gen)
    starts = (torch.rand(T, ENVS, generator=gen) < 0.2).float()
    last_done = (torch.rand(ENVS, generator=gen) < 0.2).float()
    roll = (r(T, ENVS, OBS), r(T, ENVS, ACT), r(T, ENVS) * 0.1 - 2.5, r(T, ENVS), r(T, ENVS),
            starts, r(ENVS), last_done, r(ENVS, HID) * 0.1)
    return tuple(t.to(device) for t in roll)


def live_tensors(policy, opt, logs):
    out = list(logs)
    for p in policy.parameters():
        out += [p.data, p.grad, opt.state[p]["square_avg"]]
    return out


def run(steps, dump_at=None, path=None):
    device = torch_xla.device()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    policy = RecurrentPolicy().to(device)
    opt = torch.optim.RMSprop(policy.parameters(), lr=3e-4, alpha=0.99, eps=1e-5)
    torch_xla.sync()
    hist = []
    for step in range(steps):
        roll = make_rollout(gen, device)
        logs = update(policy, opt, roll)
        if step == dump_at:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live_tensors(policy, opt, logs)))
        torch_xla.sync()
        hist.append([v.item() for v in logs])
    return hist


if __name__ == "__main__":
    for row in run(3, 2, sys.argv[1]):
        print(row)
