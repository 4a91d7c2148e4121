"""Actor-critic on a vectorised point-chasing task."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ChaseEnv:
    """n agents on a line chase a drifting target; three actions: left, stay, right."""

    def __init__(self, n, horizon, seed=0):
        self.n, self.horizon, self.rng = n, horizon, np.random.default_rng(seed)

    def reset(self):
        self.pos = self.rng.uniform(-2, 2, self.n)
        self.goal = self.rng.uniform(-2, 2, self.n)
        self.vel = self.rng.normal(0, 0.1, self.n)
        return self.obs()

    def obs(self):
        return np.stack([self.pos, self.goal, self.vel, self.goal - self.pos], 1).astype("float32")

    def step(self, action):
        self.pos = self.pos + 0.2 * (action - 1)
        self.goal = self.goal + self.vel
        return self.obs(), -np.abs(self.goal - self.pos).astype("float32")


class ActorCritic(nn.Module):
    def __init__(self, n_obs=4, n_act=3, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, n_act)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class ReturnScaler:
    """Puts returns on a common scale over the run."""

    def __init__(self, eps=1e-5):
        self.eps = eps
        self.seen = []

    def __call__(self, returns):
        self.seen.append(returns.flatten())
        everything = torch.cat(self.seen)
        return (returns - everything.mean()) / (everything.std() + self.eps)


class Agent:
    def __init__(self, env, gamma=0.95, ent=0.01, lr=3e-3):
        self.env, self.gamma, self.ent = env, gamma, ent
        self.device = xm.xla_device()
        self.net = ActorCritic().to(self.device)
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=lr)
        self.scale = ReturnScaler()
        self.rng = np.random.default_rng(1)

    @torch.no_grad()
    def act(self, obs):
        logits, _ = self.net(torch.from_numpy(obs).to(self.device))
        p = logits.softmax(-1).cpu().numpy().astype("float64")
        p /= p.sum(1, keepdims=True)
        return np.array([self.rng.choice(3, p=row) for row in p])

    def rollout(self):
        obs, all_obs, all_act, all_rew = self.env.reset(), [], [], []
        for _ in range(self.env.horizon):
            a = self.act(obs)
            nxt, r = self.env.step(a)
            all_obs.append(obs)
            all_act.append(a)
            all_rew.append(r)
            obs = nxt
        return [torch.from_numpy(np.stack(z)).to(self.device) for z in (all_obs, all_act, all_rew)]

    def returns(self, rewards):
        out, run = [], torch.zeros_like(rewards[0])
        for r in reversed(rewards.unbind(0)):
            run = r + self.gamma * run
            out.append(run)
        return torch.stack(out[::-1])

    def update(self):
        obs, act, rew = self.rollout()
        target = self.scale(self.returns(rew))
        logits, value = self.net(obs)
        logp = F.log_softmax(logits, -1)
        chosen = logp.gather(-1, act.unsqueeze(-1)).squeeze(-1)
        adv = (target - value).detach()
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * adv).mean() + 0.5 * F.mse_loss(value, target) - self.ent * entropy
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss, rew.mean()


def main(updates=16):
    torch.manual_seed(0)
    agent = Agent(ChaseEnv(n=8, horizon=10))
    for i in range(updates):
        loss, reward = agent.update()
        if i % 5 == 0:
            print(f"update {i:2d} loss {loss.item():+.3f} reward {reward.item():+.3f}")


if __name__ == "__main__":
    main()
