"""Soft actor-critic on a batch of point masses, replay memory in device memory.

Transitions never leave the device: the environment is simulated there, too.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.distributions import Normal

N_ENVS = 8
OBS, ACT = 4, 2
CAPACITY = 2048
WARMUP = 5
STEPS = 45
BATCH = 32
GAMMA = 0.98
TAU = 0.01
ALPHA = 0.1


class PointMass:
    """Push the mass to the origin; state is position and velocity in the plane."""

    def __init__(self, n, device, dt=0.1):
        self.dt = dt
        self.state = torch.randn(n, OBS, device=device)
        self.age = torch.zeros(n, device=device)

    def observe(self):
        return self.state

    def step(self, action):
        pos, vel = self.state[:, :2], self.state[:, 2:]
        vel = 0.95 * vel + self.dt * action
        pos = pos + self.dt * vel
        nxt = torch.cat([pos, vel], dim=1)
        reward = -pos.pow(2).sum(1) - 0.01 * action.pow(2).sum(1)
        self.age = self.age + 1
        done = (pos.abs().amax(1) > 4.0) | (self.age >= 50)
        fresh = torch.randn_like(nxt)
        self.state = torch.where(done[:, None], fresh, nxt)
        self.age = torch.where(done, torch.zeros_like(self.age), self.age)
        return nxt, reward, done.float()


class ReplayMemory:
    def __init__(self, capacity, n_envs, device):
        rows = capacity // n_envs
        self.rows, self.n_envs, self.device = rows, n_envs, device
        self.obs = torch.zeros(rows, n_envs, OBS, device=device)
        self.next_obs = torch.zeros(rows, n_envs, OBS, device=device)
        self.act = torch.zeros(rows, n_envs, ACT, device=device)
        self.rew = torch.zeros(rows, n_envs, device=device)
        self.done = torch.zeros(rows, n_envs, device=device)
        self.pos = 0
        self.full = False

    def add(self, obs, act, rew, next_obs, done):
        self.obs[self.pos] = obs
        self.act[self.pos] = act
        self.rew[self.pos] = rew
        self.next_obs[self.pos] = next_obs
        self.done[self.pos] = done
        self.pos += 1
        if self.pos == self.rows:
            self.full, self.pos = True, 0

    def sample(self, n):
        upper = self.rows if self.full else self.pos
        row = torch.randint(0, upper, (n,)).to(self.device)
        env = torch.randint(0, self.n_envs, (n,)).to(self.device)
        take = lambda t: t[row, env]
        return map(take, (self.obs, self.act, self.rew, self.next_obs, self.done))


def mlp(i, o, h=32):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT)

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        dist = Normal(mu, log_std.clamp(-4, 1).exp(), validate_args=False)
        u = dist.rsample()
        log_prob = dist.log_prob(u) - 2 * (0.6931 - u - F.softplus(-2 * u))
        return torch.tanh(u), log_prob.sum(-1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def soft_update(target, source):
    for t, s in zip(target.parameters(), source.parameters()):
        t.lerp_(s, TAU)


def main():
    torch.manual_seed(14)
    device = torch_xla.device()
    env = PointMass(N_ENVS, device)
    memory = ReplayMemory(CAPACITY, N_ENVS, device)
    actor, critic, target = Actor().to(device), Critic().to(device), Critic().to(device)
    target.load_state_dict(critic.state_dict())
    target.requires_grad_(False)
    opt_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
    opt_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    torch_xla.sync()

    for step in range(WARMUP + STEPS):
        with torch.no_grad():
            obs = env.observe()
            action, _ = actor(obs)
            next_obs, reward, done = env.step(action)
            memory.add(obs, action, reward, next_obs, done)
        torch_xla.sync()
        if step < WARMUP:
            continue

        o, a, r, o2, d = memory.sample(BATCH)
        with torch.no_grad():
            a2, logp2 = actor(o2)
            q_next = torch.minimum(*target(o2, a2)) - ALPHA * logp2
            y = r + GAMMA * (1 - d) * q_next
        q1, q2 = critic(o, a)
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        opt_critic.zero_grad()
        critic_loss.backward()
        opt_critic.step()

        pi, logp = actor(o)
        actor_loss = (ALPHA * logp - torch.minimum(*critic(o, pi))).mean()
        opt_actor.zero_grad()
        actor_loss.backward()
        opt_actor.step()
        soft_update(target, critic)
        torch_xla.sync()

        if (step + 1) % 10 == 0:
            print(f"{step + 1:3d}  critic {critic_loss.item():.3f}  reward {reward.mean().item():.3f}")


if __name__ == "__main__":
    main()
