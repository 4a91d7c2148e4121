"""Advantage actor-critic on a batch of vectorised toy environments."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Categorical
import torch_xla


@dataclass
class Config:
    num_envs: int = 8
    rollout: int = 5
    obs_dim: int = 6
    actions: int = 4
    hidden: int = 24
    gamma: float = 0.97
    lam: float = 0.92
    lr: float = 3e-3
    value_coef: float = 0.25
    entropy_coef: float = 0.015
    max_grad_norm: float = 0.7
    updates: int = 4


class ActorCritic(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(c.obs_dim, c.hidden), nn.Tanh(),
                                   nn.Linear(c.hidden, c.hidden), nn.Tanh())
        self.pi = nn.Linear(c.hidden, c.actions)
        self.v = nn.Linear(c.hidden, 1)

    def forward(self, obs):
        h = self.torso(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class DriftEnv:
    """Observation drifts; reward for picking the action the state points to."""

    def __init__(self, c: Config, seed=5):
        self.c = c
        self.g = torch.Generator().manual_seed(seed)
        self.w = torch.randn(c.obs_dim, c.actions, generator=self.g)
        self.obs = torch.randn(c.num_envs, c.obs_dim, generator=self.g)

    def collect(self):
        c = self.c
        obs, act, rew, done = [], [], [], []
        for _ in range(c.rollout):
            a = torch.randint(0, c.actions, (c.num_envs,), generator=self.g)
            best = (self.obs @ self.w).argmax(-1)
            d = torch.rand(c.num_envs, generator=self.g) < 0.08
            obs.append(self.obs)
            act.append(a)
            rew.append((a == best).float() - 0.25)
            done.append(d.float())
            nxt = 0.9 * self.obs + 0.3 * torch.randn(self.obs.shape, generator=self.g)
            self.obs = torch.where(d[:, None], torch.zeros_like(nxt), nxt)
        return (torch.stack(obs), torch.stack(act), torch.stack(rew),
                torch.stack(done), self.obs)


def gae(rewards, values, dones, last_value, gamma, lam):
    adv = torch.zeros_like(last_value)
    out = []
    nxt = last_value
    for t in reversed(range(rewards.size(0))):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * nxt * alive - values[t]
        adv = delta + gamma * lam * alive * adv
        out.append(adv)
        nxt = values[t]
    return torch.stack(out[::-1])


def update(net, opt, batch, c: Config):
    obs, act, rew, done, last_obs = batch
    logits, values = net(obs)
    with torch.no_grad():
        _, last_value = net(last_obs)
    adv = gae(rew, values, done, last_value, c.gamma, c.lam)
    returns = (adv + values).detach()
    dist = Categorical(logits=logits, validate_args=False)
    pg_loss = -(dist.log_prob(act) * adv).mean()
    v_loss = (returns - values).pow(2).mean()
    ent = dist.entropy().mean()
    loss = pg_loss + c.value_coef * v_loss - c.entropy_coef * ent

    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), c.max_grad_norm)
    opt.step()
    return loss.detach(), ent.detach()


def main(c=Config()):
    torch.manual_seed(1)
    device = torch_xla.device()
    env = DriftEnv(c)
    net = ActorCritic(c).to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=c.lr, alpha=0.99, eps=1e-5)
    torch_xla.sync()
    for u in range(c.updates):
        batch = tuple(t.to(device) for t in env.collect())
        with torch_xla.step():
            loss, ent = update(net, opt, batch, c)
        print(f"update {u}: loss {loss.item():+.4f} entropy {ent.item():.4f}")


if __name__ == "__main__":
    main()
