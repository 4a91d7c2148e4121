"""Off-policy grasp learning: planar gripper, DDPG-like actor and critic."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT = 9, 4
CAPACITY = 2048


class PlanarGrasp:
    """Object pose + gripper pose; reward for closing at the object with the right angle."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.obj = self.rng.uniform(-1, 1, 3)
        self.grip = np.zeros(4)
        self.t = 0
        return self._obs()

    def _obs(self):
        gap = np.linalg.norm(self.obj[:2] - self.grip[:2])
        return np.concatenate([self.obj, self.grip, [gap, self.t / 12]]).astype(np.float32)

    def step(self, action):
        self.grip = np.clip(self.grip + 0.2 * action, -1.2, 1.2)
        self.t += 1
        gap = np.linalg.norm(self.obj[:2] - self.grip[:2])
        angle = abs(self.obj[2] - self.grip[2])
        closed = self.grip[3] > 0.8
        success = closed and gap < 0.2 and angle < 0.3
        reward = -0.1 * gap - 0.05 * angle + (5.0 if success else 0.0) - (0.2 if closed and not success else 0.0)
        return self._obs(), float(reward), bool(success or self.t >= 12)


class ReplayMemory:
    def __init__(self, device):
        self.device = device
        self.obs = torch.zeros(CAPACITY, OBS, device=device)
        self.act = torch.zeros(CAPACITY, ACT, device=device)
        self.rew = torch.zeros(CAPACITY, device=device)
        self.nxt = torch.zeros(CAPACITY, OBS, device=device)
        self.end = torch.zeros(CAPACITY, device=device)
        self.head, self.count = 0, 0
        self.rng = np.random.default_rng(77)

    def push(self, obs, act, rew, nxt, end):
        row = torch.from_numpy(np.concatenate([obs, act, [rew], nxt, [end]]).astype(np.float32)).to(self.device)
        self.obs[self.head] = row[:OBS]
        self.act[self.head] = row[OBS : OBS + ACT]
        self.rew[self.head] = row[OBS + ACT]
        self.nxt[self.head] = row[OBS + ACT + 1 : -1]
        self.end[self.head] = row[-1]
        self.head = (self.head + 1) % CAPACITY
        self.count = min(self.count + 1, CAPACITY)

    def sample(self, n):
        idx = torch.from_numpy(self.rng.integers(0, self.count, n)).to(self.device)
        return self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.end[idx]


def mlp(inp, out):
    return nn.Sequential(nn.Linear(inp, 64), nn.ReLU(), nn.Linear(64, out))


class Agent:
    def __init__(self, device):
        self.actor, self.critic = mlp(OBS, ACT).to(device), mlp(OBS + ACT, 1).to(device)
        self.slow_actor, self.slow_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.opt_a = torch.optim.SGD(self.actor.parameters(), lr=1e-2)
        self.opt_c = torch.optim.SGD(self.critic.parameters(), lr=1e-2)

    def q(self, net, obs, act):
        return net(torch.cat([obs, act], 1)).squeeze(1)

    def learn(self, obs, act, rew, nxt, end):
        with torch.no_grad():
            target = rew + 0.95 * (1 - end) * self.q(self.slow_critic, nxt, torch.tanh(self.slow_actor(nxt)))
        critic_loss = F.mse_loss(self.q(self.critic, obs, act), target)
        self.opt_c.zero_grad()
        critic_loss.backward()
        self.opt_c.step()
        actor_loss = -self.q(self.critic, obs, torch.tanh(self.actor(obs))).mean()
        self.opt_a.zero_grad()
        actor_loss.backward()
        self.opt_a.step()
        with torch.no_grad():
            for fast, slow in ((self.actor, self.slow_actor), (self.critic, self.slow_critic)):
                for p, q in zip(fast.parameters(), slow.parameters()):
                    q.mul_(0.99).add_(p, alpha=0.01)
        return critic_loss.detach()


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    env, agent, memory = PlanarGrasp(seed=6), Agent(device), ReplayMemory(device)
    noise = np.random.default_rng(9)
    obs, episode, returns = env.reset(), 0.0, []
    for step in range(32):
        with torch.no_grad():
            act = torch.tanh(agent.actor(torch.from_numpy(obs).to(device))).cpu().numpy()
        act = np.clip(act + noise.normal(0, 0.3, ACT), -1, 1)
        nxt, rew, done = env.step(act)
        memory.push(obs, act, rew, nxt, done)
        loss = agent.learn(*memory.sample(64))
        torch_xla.sync()
        episode += rew
        obs = nxt
        if done:
            returns.append(episode)
            print(f"step {step:3d}  return {episode:+.2f}  critic {loss.item():.4f}")
            obs, episode = env.reset(), 0.0


if __name__ == "__main__":
    main()
