"""On-policy Gaussian actor-critic for balancing a pole on a cart with a continuous
force. One episode, one update; the environment is plain numpy."""
import math
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GAMMA = 0.97
MAX_STEPS = 40
EPISODES = 26
ENTROPY = 1e-3


class CartPole:
    """Cart-pole with a continuous force; ends when the pole falls or the cart leaves."""
    G, M_CART, M_POLE, HALF, DT = 9.8, 1.0, 0.1, 0.5, 0.04
    X_LIMIT, THETA_LIMIT, FORCE = 1.2, 0.35, 10.0

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.s = self.rng.uniform(-0.12, 0.12, 4)
        self.t = 0
        return self._obs()

    def _obs(self):
        x, dx, th, dth = self.s
        return np.array([x, dx, math.sin(th), math.cos(th), dth], dtype=np.float32)

    def step(self, action):
        force = self.FORCE * float(np.clip(action, -1, 1)) + self.rng.normal(0, 0.5)
        x, dx, th, dth = self.s
        total = self.M_CART + self.M_POLE
        tmp = (force + self.M_POLE * self.HALF * dth ** 2 * math.sin(th)) / total
        acc_th = (self.G * math.sin(th) - math.cos(th) * tmp) / (
            self.HALF * (4 / 3 - self.M_POLE * math.cos(th) ** 2 / total))
        acc_x = tmp - self.M_POLE * self.HALF * acc_th * math.cos(th) / total
        self.s = self.s + self.DT * np.array([dx, acc_x, dth, acc_th])
        self.t += 1
        fell = abs(self.s[0]) > self.X_LIMIT or abs(self.s[2]) > self.THETA_LIMIT
        reward = 1.0 - 0.5 * abs(self.s[2]) / self.THETA_LIMIT - 0.01 * action ** 2
        return self._obs(), reward, fell, self.t >= MAX_STEPS


class ObsNorm:
    """Running mean and variance of observations, kept on the host."""

    def __init__(self, n):
        self.mean, self.var, self.count = np.zeros(n), np.ones(n), 1e-2

    def __call__(self, x):
        self.count += 1
        delta = x - self.mean
        self.mean += delta / self.count
        self.var += (delta * (x - self.mean) - self.var) / self.count
        return ((x - self.mean) / np.sqrt(self.var + 1e-4)).clip(-5, 5).astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, n_obs=5, hidden=24):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.vf = nn.Sequential(nn.Linear(n_obs, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.tensor(-0.5))
        nn.init.zeros_(self.pi[-1].weight)

    def dist(self, obs):
        return torch.distributions.Normal(self.pi(obs).squeeze(-1), self.log_std.exp(),
                                          validate_args=False)

    def value(self, obs):
        return self.vf(obs).squeeze(-1)


class HostPolicy:
    """Numpy copy of the actor, so that acting needs no round trip to the device."""

    def __init__(self, model, seed):
        self.rng = np.random.default_rng(seed)
        self.pull(model)

    def pull(self, model):
        with torch.no_grad():
            names = ["pi.0.weight", "pi.0.bias", "pi.2.weight", "pi.2.bias", "log_std"]
            state = model.state_dict()
            self.w1, self.b1, self.w2, self.b2, self.ls = [state[n].cpu().numpy() for n in names]

    def act(self, obs):
        mean = self.w2 @ np.tanh(self.w1 @ obs + self.b1) + self.b2
        return float(mean[0] + np.exp(self.ls) * self.rng.standard_normal())


def run_episode(env, policy, norm):
    obs, acts, rews = [], [], []
    o, fell, timeout = norm(env.reset()), False, False
    while not (fell or timeout):
        a = policy.act(o)
        nxt, r, fell, timeout = env.step(a)
        obs.append(o)
        acts.append(a)
        rews.append(r)
        o = norm(nxt)
    return obs, acts, rews, o, fell


def bootstrap_returns(rews, last_value, fell):
    g = torch.zeros_like(last_value) if fell else last_value
    out = []
    for r in reversed(rews):
        g = r + GAMMA * g
        out.append(g)
    return torch.stack(out[::-1])


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    env = CartPole(8)
    norm = ObsNorm(5)
    model = ActorCritic().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=4e-3)
    policy = HostPolicy(model, 8)
    lengths = deque(maxlen=8)

    for episode in range(1, EPISODES + 1):
        obs, acts, rews, last, fell = run_episode(env, policy, norm)
        obs = torch.from_numpy(np.stack(obs)).to(device)
        acts = torch.tensor(acts, dtype=torch.float32).to(device)
        with torch.no_grad():
            tail = model.value(torch.from_numpy(last).to(device))
        returns = bootstrap_returns(rews, tail, fell)

        values = model.value(obs)
        adv = (returns - values).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        dist = model.dist(obs)
        actor = -(dist.log_prob(acts) * adv).mean() - ENTROPY * dist.entropy().mean()
        critic = F.smooth_l1_loss(values, returns)
        loss = actor + 0.5 * critic
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        torch_xla.sync()
        policy.pull(model)

        lengths.append(len(rews))
        if episode % 5 == 0:
            print(f"episode {episode:3d} mean length {np.mean(lengths):5.1f} "
                  f"return {sum(rews):6.2f} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
