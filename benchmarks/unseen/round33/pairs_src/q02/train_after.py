"""Recurrent advantage actor-critic on a vectorised multi-item inventory environment."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class InventoryEnv:
    """n parallel warehouses, k items, fixed lead time of one period; lives on the device."""

    def __init__(self, n, k, n_levels, device):
        self.n, self.k, self.device = n, k, device
        self.order_sizes = torch.linspace(0.0, 6.0, n_levels, device=device)
        self.price = torch.linspace(1.0, 2.0, k, device=device)
        self.hold = 0.1
        self.short = 0.5

    def reset(self):
        self.stock = torch.full((self.n, self.k), 4.0, device=self.device)
        self.pipeline = torch.zeros(self.n, self.k, device=self.device)
        return self._obs()

    def _obs(self):
        return torch.cat([self.stock, self.pipeline], dim=1) / 5.0

    def step(self, action):
        arrive = self.pipeline
        self.pipeline = self.order_sizes[action]
        demand = -3.0 * torch.log1p(-torch.rand(self.n, self.k, device=self.device))
        have = self.stock + arrive
        sold = torch.minimum(have, demand)
        self.stock = have - sold
        cost = self.hold * self.stock + self.short * (demand - sold) + 0.6 * self.pipeline
        reward = (self.price * sold - cost).sum(1)
        return self._obs(), reward


class Agent(nn.Module):
    def __init__(self, obs_dim, k, n_levels, hidden=24):
        super().__init__()
        self.k, self.n_levels = k, n_levels
        self.enc = nn.Linear(obs_dim, hidden)
        self.cell = nn.RNNCell(hidden, hidden)
        self.pi = nn.Linear(hidden, k * n_levels)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs, h):
        h = self.cell(torch.tanh(self.enc(obs)), h)
        logits = self.pi(h).view(-1, self.k, self.n_levels)
        return logits, self.v(h).squeeze(-1), h


def gumbel_sample(logits):
    u = torch.rand_like(logits).clamp_(1e-6, 1 - 1e-6)
    return (logits - torch.log(-torch.log(u))).argmax(-1)


def rollout(agent, env, obs, h, horizon):
    logps, values, entropies, rewards = [], [], [], []
    for _ in range(horizon):
        logits, value, h = agent(obs, h)
        action = gumbel_sample(logits.detach())
        logp_all = F.log_softmax(logits, dim=-1)
        logps.append(logp_all.gather(-1, action.unsqueeze(-1)).squeeze(-1).sum(1))
        entropies.append(-(logp_all.exp() * logp_all).sum(-1).mean(1))
        values.append(value)
        obs, reward = env.step(action)
        rewards.append(reward * 0.1)
    with torch.no_grad():
        _, last_value, _ = agent(obs, h)
    return obs, h, torch.stack(logps), torch.stack(values), torch.stack(entropies), rewards, last_value


def gae(rewards, values, last_value, gamma, lam):
    """Generalised advantage estimates; lam=1 gives the n-step returns used so far."""
    adv, acc = [], 0.0
    next_value = last_value
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + gamma * next_value - values[t]
        acc = delta + gamma * lam * acc
        adv.insert(0, acc)
        next_value = values[t]
    adv = torch.stack(adv)
    return adv, adv + values


def train(iters=6, n=8, k=3, n_levels=4, horizon=2, gamma=0.97, lam=1.0, vf_coef=0.5, ent_coef=0.01):
    torch.manual_seed(11)
    device = torch_xla.device()
    env = InventoryEnv(n, k, n_levels, device)
    agent = Agent(2 * k, k, n_levels).to(device)
    opt = torch.optim.RMSprop(agent.parameters(), lr=7e-4, eps=1e-5)

    obs = env.reset()
    h = torch.zeros(n, 24, device=device)
    torch_xla.sync()
    for it in range(iters):
        obs, h, logps, values, entropies, rewards, last_value = rollout(agent, env, obs, h.detach(), horizon)

        adv, returns = gae(rewards, values, last_value, gamma, lam)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)

        pg_loss = -(adv * logps).mean()
        v_loss = F.mse_loss(values, returns.detach())
        loss = pg_loss + vf_coef * v_loss - ent_coef * entropies.mean()

        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
        torch_xla.sync()
        print(f"iter {it} loss {loss.item():.4f} v {v_loss.item():.4f} reward {sum(r.mean().item() for r in rewards) / horizon:.3f}")


if __name__ == "__main__":
    train()
