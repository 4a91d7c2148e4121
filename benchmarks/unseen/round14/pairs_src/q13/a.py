"""Actor-critic for a heating controller on a simulated building (batched on the host).

Collects short rollouts from many buildings at once, then one update on the
accelerator with generalized advantage estimates.
"""
import argparse
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch_xla


class Buildings:
    """First-order thermal model; an episode ends when the tenants leave."""

    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.count = count
        self.temp = self.rng.normal(18.0, 2.0, count)
        self.outside = self.rng.normal(5.0, 3.0, count)

    def observe(self):
        hour = self.rng.random(self.count)
        cols = [(self.temp - 20) / 5, (self.outside - 5) / 5, np.sin(6.28 * hour), np.cos(6.28 * hour)]
        return np.stack(cols, axis=-1).astype(np.float32)

    def step(self, action):
        self.temp += 0.1 * (self.outside - self.temp) + 1.2 * action
        reward = -np.abs(self.temp - 21.0) / 5 - 0.1 * action
        over = self.rng.random(self.count) < 0.1
        self.temp = np.where(over, self.rng.normal(18.0, 2.0, self.count), self.temp)
        return reward.astype(np.float32), over.astype(np.float32)


class Policy(nn.Module):
    def __init__(self, obs=4, actions=4, width=24):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, actions)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return torch.log_softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


def advantages(rewards, values, dones, gamma, lam):
    """GAE; values and dones have one entry more than rewards along time."""
    horizon = rewards.size(0)
    gae = torch.zeros_like(rewards[0])
    out = []
    for t in reversed(range(horizon)):
        alive = 1.0 - dones[t + 1]
        delta = rewards[t] + gamma * values[t + 1] * alive - values[t]
        gae = delta + gamma * lam * alive * gae
        out.append(gae)
    return torch.stack(out[::-1])


def collect(env, horizon, last_done):
    """Rollout with a uniformly random behaviour policy; dones[t] says obs[t] starts an episode."""
    roll = SimpleNamespace(obs=[env.observe()], actions=[], rewards=[], dones=[last_done])
    for _ in range(horizon):
        action = env.rng.integers(0, 4, env.count)
        reward, over = env.step(action / 3.0)
        roll.actions.append(action)
        roll.rewards.append(reward)
        roll.dones.append(over)
        roll.obs.append(env.observe())
    return {k: torch.from_numpy(np.stack(v)) for k, v in vars(roll).items()}


def update(policy, opt, batch, args):
    log_pi, values = policy(batch["obs"])
    adv = advantages(batch["rewards"], values.detach(), batch["dones"], args.gamma, args.lam)
    returns = adv + values.detach()[:-1]
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    taken = log_pi[:-1].gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    entropy = -(log_pi.exp() * log_pi).sum(-1).mean()
    loss = -(taken * adv).mean() + 0.5 * (returns - values[:-1]).square().mean() - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0, foreach=False)
    opt.step()
    return loss, entropy


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--buildings", type=int, default=16)
    ap.add_argument("--horizon", type=int, default=12)
    ap.add_argument("--updates", type=int, default=18)
    ap.add_argument("--gamma", type=float, default=0.97)
    ap.add_argument("--lam", type=float, default=0.93)
    args = ap.parse_args()
    torch.manual_seed(6)
    device = torch_xla.device()
    env = Buildings(args.buildings, seed=8)
    policy = Policy().to(device)
    opt = torch.optim.RMSprop(policy.parameters(), lr=1e-3, alpha=0.95)
    last_done = np.zeros(args.buildings, dtype=np.float32)
    for it in range(args.updates):
        roll = collect(env, args.horizon, last_done)
        last_done = roll["dones"][-1].numpy()
        loss, entropy = update(policy, opt, {k: v.to(device) for k, v in roll.items()}, args)
        torch_xla.sync()
        if it % 6 == 5:
            print(f"update {it + 1}: loss {loss.item():.3f} entropy {entropy.item():.3f}")


if __name__ == "__main__":
    main()
