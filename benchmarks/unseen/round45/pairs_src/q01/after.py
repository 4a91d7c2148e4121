"""Soft actor-critic update for valve control in a water network (torch_xla)."""
import os
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT, HID, BATCH = 11, 3, 16, 24
GAMMA, TAU = 0.98, 0.01
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
DUMP_AT = 4
OUT = {"before.py": "a.hlo", "after.py": "b.hlo"}[os.path.basename(__file__)]


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(OBS, HID)
        self.mu = nn.Linear(HID, ACT)
        self.log_std = nn.Linear(HID, ACT)

    def forward(self, obs, noise):
        h = F.relu(self.body(obs))
        mu = self.mu(h)
        log_std = torch.tanh(self.log_std(h))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        pre = mu + log_std.exp() * noise
        action = torch.tanh(pre)
        logp = (-0.5 * noise.pow(2) - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        logp = logp - (2 * (math.log(2) - pre - F.softplus(-2 * pre))).sum(-1)
        return action, logp


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(OBS + ACT, HID), nn.ReLU(), nn.Linear(HID, 1))
        self.q2 = nn.Sequential(nn.Linear(OBS + ACT, HID), nn.ReLU(), nn.Linear(HID, 1))

    def forward(self, obs, action):
        x = torch.cat([obs, action], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class SAC:
    def __init__(self, device):
        self.actor = Actor().to(device)
        self.critic = Critic().to(device)
        self.target = Critic().to(device)
        self.target.load_state_dict(self.critic.state_dict())
        for p in self.target.parameters():
            p.requires_grad_(False)
        self.log_alpha = torch.zeros((), device=device, requires_grad=True)
        self.target_entropy = -float(ACT)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.alpha_opt = torch.optim.SGD([self.log_alpha], lr=1e-3)

    def update(self, batch):
        obs, act, rew, nobs, done, n1, n2 = batch
        alpha = self.log_alpha.exp()

        with torch.no_grad():
            nact, nlogp = self.actor(nobs, n1)
            tq1, tq2 = self.target(nobs, nact)
            tq = torch.min(tq1, tq2) - alpha * nlogp
            backup = rew + GAMMA * (1.0 - done) * tq

        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        for p in self.critic.parameters():
            p.requires_grad_(False)
        pi, logp = self.actor(obs, n2)
        aq1, aq2 = self.critic(obs, pi)
        actor_loss = (alpha * logp - torch.min(aq1, aq2)).mean()
        alpha_loss = -(alpha * (logp.detach() + self.target_entropy)).mean()

        self.actor_opt.zero_grad()
        self.alpha_opt.zero_grad()
        (actor_loss + alpha_loss).backward()
        self.actor_opt.step()
        self.alpha_opt.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)

        with torch.no_grad():
            for p, tp in zip(self.critic.parameters(), self.target.parameters()):
                tp.mul_(1.0 - TAU).add_(p, alpha=TAU)
        return critic_loss.detach(), actor_loss.detach(), alpha_loss.detach()


def live(agent, losses):
    out = list(losses)
    for m in (agent.actor, agent.critic, agent.target):
        out += list(m.parameters())
    out.append(agent.log_alpha)
    out += [p.grad for m in (agent.actor, agent.critic) for p in m.parameters()]
    out.append(agent.log_alpha.grad)
    for opt in (agent.actor_opt, agent.critic_opt):
        for p in opt.param_groups[0]["params"]:
            out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return out


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    agent = SAC(device)
    gen = torch.Generator().manual_seed(8)
    for step in range(DUMP_AT + 2):
        batch = [torch.randn(BATCH, d, generator=gen) if d else torch.randn(BATCH, generator=gen)
                 for d in (OBS, ACT, 0, OBS, 0, ACT, ACT)]
        batch[4] = (batch[4] > 1.0).float()
        batch = [t.to(device) for t in batch]
        losses = agent.update(batch)
        if step == DUMP_AT:
            text = torch_xla._XLAC._get_xla_tensors_hlo(live(agent, losses))
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), OUT), "w") as f:
                f.write(text)
        xm.mark_step()
        print(step, *[f"{l.item():.6f}" for l in losses])


if __name__ == "__main__":
    main()
