"""n-step advantage actor-critic on a batched point-mass environment."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GAMMA = 0.97
ENT_COEF = 0.01
VF_COEF = 0.5
MAX_GRAD_NORM = 0.5
N_STEPS = 4
N_ENVS = 6
OBS, ACTIONS = 4, 3


class ActorCritic(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(OBS, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, ACTIONS)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.torso(obs)
        return self.policy(h), self.value(h).squeeze(-1)


class PointMass:
    """Runs on the host; the learner only sees the stacked rollout."""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.n = n
        self.state = torch.randn(n, OBS, generator=self.g)

    def step(self, action):
        force = (action - 1).float().unsqueeze(-1)
        pos, vel = self.state[:, :2], self.state[:, 2:]
        vel = 0.95 * vel + 0.1 * force
        pos = pos + 0.1 * vel
        self.state = torch.cat([pos, vel], 1)
        reward = -pos.pow(2).sum(-1)
        done = (pos.abs().amax(-1) > 2.5).float()
        fresh = torch.randn(self.n, OBS, generator=self.g)
        self.state = torch.where(done.bool().unsqueeze(-1), fresh, self.state)
        return self.state, reward, done


def collect(env):
    obs, acts, rews, dones = [], [], [], []
    for _ in range(N_STEPS):
        a = torch.randint(0, ACTIONS, (env.n,), generator=env.g)
        obs.append(env.state)
        _, r, d = env.step(a)
        acts.append(a)
        rews.append(r)
        dones.append(d)
    return (torch.stack(obs), torch.stack(acts), torch.stack(rews), torch.stack(dones), env.state)


def nstep_returns(bootstrap, rewards, dones):
    out = []
    ret = bootstrap
    for t in reversed(range(N_STEPS)):
        ret = rewards[t] + GAMMA * (1.0 - dones[t]) * ret
        out.append(ret)
    out.reverse()
    return torch.stack(out)


def a2c_loss(net, obs, acts, rews, dones, last_obs):
    logits, values = net(obs.flatten(0, 1))
    logits = logits.view(N_STEPS, N_ENVS, ACTIONS)
    values = values.view(N_STEPS, N_ENVS)

    _, bootstrap = net(last_obs)
    returns = nstep_returns(bootstrap, rews, dones)

    logp = F.log_softmax(logits, dim=-1)
    taken = logp.gather(-1, acts.unsqueeze(-1)).squeeze(-1)
    adv = returns - values
    policy_loss = -(adv.detach() * taken).mean()
    value_loss = adv.pow(2).mean()
    entropy = -(logp.exp() * logp).sum(-1).mean()
    return policy_loss + VF_COEF * value_loss - ENT_COEF * entropy


def main(updates=5):
    torch.manual_seed(1)
    device = torch_xla.device()
    net = ActorCritic().to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    env = PointMass(N_ENVS, seed=5)
    for u in range(updates):
        rollout = [t.to(device) for t in collect(env)]
        with torch_xla.step():
            loss = a2c_loss(net, *rollout)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), MAX_GRAD_NORM)
            opt.step()
        print(f"update {u}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
