"""Advantage actor-critic for a two-echelon inventory problem.

State: stock on hand, stock in transit, last demands. Action: order quantity bucket.
The simulator is vectorised NumPy; the update runs on the XLA device.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ENVS = 6
HORIZON = 5
N_ACTIONS = 7
OBS = 9
GAMMA = 0.97
ENT_COEF = 0.01
VF_COEF = 0.5
UPDATES = 6


class Inventory:
    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.stock = np.full(n, 10.0)
        self.pipe = np.zeros((n, 3))
        self.demand = np.zeros((n, 5))

    def obs(self):
        return np.concatenate([self.stock[:, None], self.pipe, self.demand], 1).astype(np.float32) / 10.0

    def step(self, action):
        self.stock = self.stock + self.pipe[:, 0]
        self.pipe = np.concatenate([self.pipe[:, 1:], 2.0 * action[:, None]], 1)
        d = self.rng.poisson(5.0, self.n).astype(np.float64)
        sold = np.minimum(self.stock, d)
        lost = d - sold
        self.stock = self.stock - sold
        self.demand = np.concatenate([self.demand[:, 1:], d[:, None]], 1)
        reward = sold - 0.1 * self.stock - 0.8 * lost
        return self.obs(), (reward / 5.0).astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, obs, actions, hidden=24):
        super().__init__()
        self.inp = nn.Linear(obs, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.pi.weight, 0.01)
        nn.init.zeros_(self.pi.bias)

    def forward(self, x):
        h = torch.tanh(self.norm(self.inp(x)))
        h = h + torch.tanh(self.mid(h))
        return self.pi(h), self.v(h).squeeze(-1)


def discounted(rewards, bootstrap):
    out = np.zeros_like(rewards)
    acc = bootstrap
    for t in reversed(range(len(rewards))):
        acc = rewards[t] + GAMMA * acc
        out[t] = acc
    return out


@torch.no_grad()
def act(model, obs, gen, device):
    logits, value = model(torch.from_numpy(obs).to(device))
    logits, value = logits.cpu(), value.cpu()
    action = torch.multinomial(logits.softmax(-1), 1, generator=gen).squeeze(-1)
    return action.numpy(), value.numpy()


def rollout(env, model, gen, device):
    obs_buf, act_buf, rew_buf = [], [], []
    obs = env.obs()
    for _ in range(HORIZON):
        a, _ = act(model, obs, gen, device)
        nxt, r = env.step(a)
        obs_buf.append(obs)
        act_buf.append(a)
        rew_buf.append(r)
        obs = nxt
    _, last_v = act(model, obs, gen, device)
    returns = discounted(np.stack(rew_buf), last_v)
    flat = lambda b: torch.from_numpy(np.stack(b).reshape(HORIZON * N_ENVS, *b[0].shape[1:]))
    return flat(obs_buf), flat(act_buf), torch.from_numpy(returns.reshape(-1))


def a2c_loss(model, obs, actions, returns):
    logits, values = model(obs)
    logp_all = F.log_softmax(logits, dim=-1)
    logp = logp_all.gather(1, actions.unsqueeze(1)).squeeze(1)
    entropy = -(logp_all.exp() * logp_all).sum(-1).mean()

    adv = returns - values.detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    policy_loss = -(adv * logp).mean()
    value_loss = F.mse_loss(values, returns)

    loss = policy_loss + VF_COEF * value_loss - ENT_COEF * entropy
    return loss, policy_loss, value_loss, entropy


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    model = ActorCritic(OBS, N_ACTIONS).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    env = Inventory(N_ENVS, seed=5)
    gen = torch.Generator().manual_seed(9)

    for it in range(UPDATES):
        obs, actions, returns = rollout(env, model, gen, device)
        loss, pl, vl, ent = a2c_loss(model, obs.to(device), actions.to(device), returns.to(device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        torch_xla.sync()
        print(f"{it:3d} loss {loss.item():.5f} pi {pl.item():.5f} v {vl.item():.5f} H {ent.item():.4f}")


if __name__ == "__main__":
    main()
