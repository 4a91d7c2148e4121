"""Advantage actor-critic on a toy corridor environment."""
import random
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    updates: int = 36
    envs: int = 4
    horizon: int = 24
    gamma: float = 0.97
    lam: float = 0.95
    entropy: float = 0.01
    lr: float = 3e-3


class Corridor:
    """Walk right to the goal; slips sometimes."""

    def __init__(self, seed, length=9):
        self.rng, self.length = random.Random(seed), length
        self.reset()

    def obs(self):
        return [self.pos / self.length, self.t / 30.0, self.wind, 1.0]

    def reset(self):
        self.pos, self.t, self.wind = 0, 0, self.rng.uniform(-1, 1)
        return self.obs()

    def step(self, action):
        self.t += 1
        move = 1 if action == 1 else -1
        if self.rng.random() < 0.15 + 0.1 * abs(self.wind):
            move = -move
        self.pos = max(0, self.pos + move)
        done = self.pos >= self.length or self.t >= 30
        return self.obs(), 1.0 if self.pos >= self.length else -0.02, done


@dataclass
class Rollout:
    obs: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    alive: list = field(default_factory=list)

    def add(self, o, a, r, d):
        self.obs.append(o)
        self.actions.append(a)
        self.rewards.append(r)
        self.alive.append([0.0 if x else 1.0 for x in d])

    def tensors(self, device):
        return (torch.tensor(self.obs).to(device), torch.tensor(self.actions).to(device),
                torch.tensor(self.rewards).to(device), torch.tensor(self.alive).to(device))


class ActorCritic(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, 2), nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class Collector:
    """Plays on the host with a CPU copy of the policy."""

    def __init__(self, cfg, policy):
        self.cfg, self.policy = cfg, policy
        self.envs = [Corridor(100 + i) for i in range(cfg.envs)]
        self.rng = random.Random(0)

    @torch.no_grad()
    def collect(self):
        roll, state = Rollout(), [e.reset() for e in self.envs]
        finished = [False] * len(self.envs)
        while len(roll.obs) < self.cfg.horizon and not all(finished):
            probs = self.policy(torch.tensor(state))[0].softmax(-1)[:, 1].tolist()
            acts = [int(self.rng.random() < p) for p in probs]
            nxt, rew, done = zip(*[e.step(a) for e, a in zip(self.envs, acts)])
            roll.add(state, acts, list(rew), done)
            finished = [f or d for f, d in zip(finished, done)]
            state = [e.reset() if d else o for e, o, d in zip(self.envs, nxt, done)]
        return roll, state


def gae(rewards, values, last_value, alive, cfg):
    adv, out, nxt = torch.zeros_like(last_value), [], last_value
    for t in reversed(range(rewards.shape[0])):
        delta = rewards[t] + cfg.gamma * nxt * alive[t] - values[t]
        adv = delta + cfg.gamma * cfg.lam * alive[t] * adv
        out.append(adv)
        nxt = values[t]
    return torch.stack(out[::-1])


class Learner:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.net = ActorCritic().to(device)
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=cfg.lr)

    def update(self, roll, last_obs):
        obs, act, rew, alive = roll.tensors(self.device)
        logits, values = self.net(obs)
        with torch.no_grad():
            last_value = self.net(torch.tensor(last_obs).to(self.device))[1]
            adv = gae(rew, values, last_value, alive, self.cfg)
            target = adv + values
        logp = F.log_softmax(logits, -1)
        chosen = logp.gather(-1, act[..., None]).squeeze(-1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * adv).mean() + 0.5 * F.mse_loss(values, target) - self.cfg.entropy * entropy
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.opt.step()
        torch_xla.sync()
        return loss.detach()

    def push_weights(self, policy):
        policy.load_state_dict({k: v.cpu() for k, v in self.net.state_dict().items()})


def main():
    random.seed(0)
    torch.manual_seed(0)
    cfg = Config()
    learner = Learner(cfg, torch_xla.device())
    actor = ActorCritic()
    torch_xla.sync()
    collector = Collector(cfg, actor)
    for update in range(cfg.updates):
        learner.push_weights(actor)
        loss = learner.update(*collector.collect())
        if (update + 1) % 12 == 0:
            print(update + 1, f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
