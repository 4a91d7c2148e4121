"""Soft actor-critic update for a hopper-like robot."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT = 11, 3


class Actor(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.fc1 = nn.Linear(OBS, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.mean = nn.Linear(hidden, ACT)
        self.log_std = nn.Linear(hidden, ACT)

    def forward(self, obs):
        h = F.relu(self.fc1(obs))
        h = F.relu(self.fc2(h))
        mean = self.mean(h)
        log_std = -5 + 0.5 * (2 - (-5)) * (torch.tanh(self.log_std(h)) + 1)
        return mean, log_std

    def sample(self, obs):
        mean, log_std = self(obs)
        std = log_std.exp()
        u = mean + std * torch.randn_like(mean)
        a = torch.tanh(u)
        logp = -((u - mean) ** 2) / (2 * std ** 2) - log_std - math.log(math.sqrt(2 * math.pi))
        logp = logp - torch.log(1 - a ** 2 + 1e-6)
        return a, logp.sum(1)


class Critic(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, hidden)
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], 1)
        x = F.relu(self.fc1(x))
        return self.fc2(x).squeeze(1)


class SAC:
    def __init__(self, device, gamma=0.99, tau=0.005, lr=3e-4):
        self.gamma, self.tau = gamma, tau
        self.actor = Actor().to(device)
        self.q1, self.q2 = Critic().to(device), Critic().to(device)
        self.q1_target, self.q2_target = Critic().to(device), Critic().to(device)
        self.q1_target.load_state_dict(self.q1.state_dict())
        self.q2_target.load_state_dict(self.q2.state_dict())
        self.log_alpha = torch.zeros(1, device=device, requires_grad=True)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.q_opt = torch.optim.Adam(list(self.q1.parameters()) + list(self.q2.parameters()), lr=lr)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=lr)

    def update(self, obs, act, rew, next_obs, done):
        alpha = self.log_alpha.exp().detach()

        with torch.no_grad():
            next_act, next_logp = self.actor.sample(next_obs)
            q1_next = self.q1_target(next_obs, next_act)
            q2_next = self.q2_target(next_obs, next_act)
            q_next = torch.min(q1_next, q2_next) - alpha * next_logp
            backup = rew + (1 - done) * self.gamma * q_next
        q1_loss = F.mse_loss(self.q1(obs, act), backup)
        q2_loss = F.mse_loss(self.q2(obs, act), backup)
        q_loss = q1_loss + q2_loss
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        new_act, logp = self.actor.sample(obs)
        q_new = torch.min(self.q1(obs, new_act), self.q2(obs, new_act))
        actor_loss = (alpha * logp - q_new).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()

        alpha_loss = (-self.log_alpha.exp() * (logp.detach() - ACT)).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()

        with torch.no_grad():
            for net, target in ((self.q1, self.q1_target), (self.q2, self.q2_target)):
                for p, tp in zip(net.parameters(), target.parameters()):
                    tp.data.copy_(self.tau * p.data + (1 - self.tau) * tp.data)
        return q_loss, actor_loss, alpha_loss


def replay(device, steps, batch=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield [t.to(device) for t in (
            torch.randn(batch, OBS, generator=g), torch.rand(batch, ACT, generator=g) * 2 - 1,
            torch.randn(batch, generator=g), torch.randn(batch, OBS, generator=g),
            (torch.rand(batch, generator=g) < 0.1).float())]


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    agent = SAC(device)
    torch_xla.sync()
    for step, batch in enumerate(replay(device, 5)):
        losses = agent.update(*batch)
        torch_xla.sync()
        print(step, *[f"{x.item():.6f}" for x in losses])


if __name__ == "__main__":
    main()
