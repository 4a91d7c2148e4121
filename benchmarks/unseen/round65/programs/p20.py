"""TD3 on a small pendulum: twin critics each step, actor and target networks every second step."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, BATCH, STEPS = 3, 16, 24
POLICY_DELAY = 2
EVAL_EVERY = 8


class Pendulum:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.th, self.om = self.rng.uniform(-math.pi, math.pi), self.rng.uniform(-1, 1)
        return self.obs()

    def obs(self):
        return np.array([math.cos(self.th), math.sin(self.th), self.om], dtype=np.float32)

    def step(self, u):
        reward = -(self.th**2 + 0.1 * self.om**2 + 0.001 * u**2)
        self.om = float(np.clip(self.om + 0.05 * (15 * math.sin(self.th) + 3 * u), -8, 8))
        self.th = (self.th + 0.05 * self.om + math.pi) % (2 * math.pi) - math.pi
        return self.obs(), reward


def mlp(inp, out, width=12):
    return nn.Sequential(nn.Linear(inp, width), nn.ReLU(), nn.Linear(width, out))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.q1, self.q2 = mlp(OBS, 1), mlp(OBS + 1, 1), mlp(OBS + 1, 1)

    def act(self, obs):
        return torch.tanh(self.actor(obs))

    def values(self, obs, action):
        return [q(torch.cat([obs, action], -1)) for q in (self.q1, self.q2)]


def collect(env, rng, n):
    rows, obs = [], env.reset()
    for i in range(n):
        u = rng.uniform(-1, 1)
        nxt, reward = env.step(u)
        rows.append((obs, np.float32([u]), np.float32([reward]), nxt))
        obs = env.reset() if i % 40 == 39 else nxt
    return [torch.from_numpy(np.stack(col)) for col in zip(*rows)]


@torch.no_grad()
def evaluate(agent, env, device, horizon=5):
    obs, total = env.reset(), 0.0
    for _ in range(horizon):
        obs, reward = env.step(agent.act(torch.from_numpy(obs)[None].to(device)).item())
        total += reward
    return total


def main():
    torch.manual_seed(53)
    rng = np.random.default_rng(53)
    device = torch_xla.device()
    replay = collect(Pendulum(rng), rng, 200)
    agent = Agent().to(device)
    target = copy.deepcopy(agent).requires_grad_(False)
    critic_opt = torch.optim.SGD([*agent.q1.parameters(), *agent.q2.parameters()], 1e-3, momentum=0.9)
    actor_opt = torch.optim.SGD(agent.actor.parameters(), lr=1e-3, momentum=0.9)
    for step in range(STEPS):
        idx = torch.from_numpy(rng.integers(0, 200, BATCH))
        obs, action, reward, nxt = (col[idx].to(device) for col in replay)
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
            goal = reward + 0.98 * torch.min(*target.values(nxt, (target.act(nxt) + noise).clamp(-1, 1)))
        loss = sum(F.mse_loss(q, goal) for q in agent.values(obs, action))
        critic_opt.zero_grad()
        loss.backward()
        critic_opt.step()
        if (step + 1) % POLICY_DELAY == 0:
            actor_opt.zero_grad()
            (-agent.values(obs, agent.act(obs))[0].mean()).backward(inputs=list(agent.actor.parameters()))
            actor_opt.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(target.parameters()), list(agent.parameters()), 0.05)
        torch_xla.sync()
        if (step + 1) % EVAL_EVERY == 0:
            print(step + 1, round(loss.item(), 3), round(evaluate(agent, Pendulum(rng), device), 2))


if __name__ == "__main__":
    main()
