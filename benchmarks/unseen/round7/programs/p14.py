"""Model-based control: ensemble dynamics learned from data and a policy improved in imagination."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STATE, ACTION, BATCH, MEMBERS = 4, 2, 24, 2


class Plant:
    """A damped linear system with noise, the true environment."""

    def __init__(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.a = 0.9 * torch.eye(STATE) + 0.05 * torch.randn(STATE, STATE, generator=g)
        self.b = 0.3 * torch.randn(ACTION, STATE, generator=g)
        self.g = g

    def transitions(self, n):
        s = torch.randn(n, STATE, generator=self.g)
        u = torch.rand(n, ACTION, generator=self.g) * 2 - 1
        nxt = s @ self.a + u @ self.b + 0.02 * torch.randn(n, STATE, generator=self.g)
        return s, u, nxt


class Dynamics(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATE + ACTION, width), nn.SiLU(), nn.Linear(width, STATE))

    def forward(self, s, u):
        return s + self.net(torch.cat([s, u], dim=-1))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATE, 16), nn.Tanh(), nn.Linear(16, ACTION))

    def forward(self, s):
        return torch.tanh(self.net(s))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATE, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, s):
        return self.net(s).squeeze(-1)


def cost(s, u):
    return s.square().sum(-1) + 0.1 * u.square().sum(-1)


class Learner:
    def __init__(self, device, seed):
        self.device = device
        self.plant = Plant(seed)
        self.models = nn.ModuleList([Dynamics() for _ in range(MEMBERS)]).to(device)
        self.actor, self.critic = Actor().to(device), Critic().to(device)
        self.model_opt = torch.optim.Adam(self.models.parameters(), lr=5e-3)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=2e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=5e-3)
        self.gamma = 0.95

    def fit_models(self):
        s, u, nxt = (t.to(self.device) for t in self.plant.transitions(BATCH))
        loss = sum(F.mse_loss(m(s, u), nxt) for m in self.models)
        self.model_opt.zero_grad()
        loss.backward()
        self.model_opt.step()
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def imagine(self, horizon):
        """Discounted cost of the present policy from random states."""
        s = torch.randn(BATCH, STATE, device=self.device)
        start, ret, discount = s, torch.zeros(BATCH, device=self.device), 1.0
        model = self.models[0]
        for _ in range(horizon):
            u = self.actor(s)
            ret = ret + discount * cost(s, u)
            s = model(s, u)
            discount *= self.gamma
        return start, ret + discount * self.critic(s)

    def fit_critic(self, horizon):
        start, target = self.imagine(horizon)
        loss = F.smooth_l1_loss(self.critic(start), target)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        torch_xla.sync()
        return loss

    def fit_actor(self):
        s = torch.randn(BATCH, STATE, device=self.device)
        u = self.actor(s)
        nxt = torch.stack([m(s, u) for m in self.models]).mean(0)
        loss = (cost(s, u) + self.gamma * self.critic(nxt)).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()
        torch_xla.sync()
        return loss


class HorizonPlan:
    """Longer imagination as the models become trustworthy."""

    def __init__(self, first, last, rounds):
        self.first, self.last, self.rounds = first, last, rounds

    def __call__(self, r):
        return self.first + round((self.last - self.first) * r / max(1, self.rounds - 1))


def main(rounds=18):
    torch.manual_seed(9)
    learner = Learner(torch_xla.device(), seed=9)
    horizon = HorizonPlan(2, 14, rounds)
    torch_xla.sync()
    for r in range(rounds):
        model_loss = learner.fit_models()
        critic_loss = learner.fit_critic(horizon(r))
        actor_loss = learner.fit_actor()
        if r % 6 == 5:
            print(f'round {r} model {model_loss.item():.3f} critic {critic_loss.item():.3f} '
                  f'actor {actor_loss.item():.3f}')


if __name__ == '__main__':
    main()
