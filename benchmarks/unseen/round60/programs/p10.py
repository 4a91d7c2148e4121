import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla

# PPO for inventory control of a perishable product: order quantity per day,
# demand with a weekly pattern, waste after three days.
N_ENVS, HORIZON = 16, 14
UPDATES, EPOCHS = 40, 2
ACTIONS = 7
ORDER_UNIT = 4
OBS = 3 + 2 + 7
GAMMA_START, GAMMA_END = 0.90, 0.995
LAM = 0.92
CLIP_START, CLIP_END = 0.3, 0.1


class Shelf:
    """Vectorized: stock[:, k] expires in k + 1 days."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.weekly = np.array([8, 7, 7, 9, 13, 16, 10], dtype=np.float64)

    def reset(self):
        self.stock = self.rng.integers(0, 6, size=(self.n, 3)).astype(np.float64)
        self.day = self.rng.integers(0, 7, size=self.n)
        self.last = np.zeros((self.n, 2))
        return self.obs()

    def obs(self):
        dow = np.eye(7)[self.day]
        return np.concatenate([self.stock / 10, self.last / 10, dow], axis=1).astype(np.float32)

    def step(self, action):
        order = action * ORDER_UNIT
        self.stock[:, 2] += order
        demand = self.rng.poisson(self.weekly[self.day]).astype(np.float64)
        left = demand.copy()
        for k in range(3):
            sold = np.minimum(self.stock[:, k], left)
            self.stock[:, k] -= sold
            left -= sold
        waste = self.stock[:, 0].copy()
        self.stock = np.concatenate([self.stock[:, 1:], np.zeros((self.n, 1))], axis=1)
        self.day = (self.day + 1) % 7
        self.last = np.stack([demand, waste], axis=1)
        reward = 1.0 * (demand - left) - 0.5 * order - 0.3 * left - 0.2 * waste
        return self.obs(), (reward / 10).astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, hid=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, hid), nn.Tanh(), nn.Linear(hid, hid), nn.Tanh())
        self.pi = nn.Linear(hid, ACTIONS)
        self.v = nn.Linear(hid, 1)

    def forward(self, obs):
        h = self.body(obs)
        return torch.log_softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


class Collector:
    def __init__(self, device, seed):
        self.env = Shelf(N_ENVS, seed)
        self.rng = np.random.default_rng(seed + 1)
        self.device = device
        self.cur = self.env.reset()

    @torch.no_grad()
    def rollout(self, net):
        obs, act, logp, rew = [], [], [], []
        for _ in range(HORIZON):
            lp, _ = net(torch.from_numpy(self.cur).to(self.device))
            lp = lp.cpu().numpy()
            a = (lp + self.rng.gumbel(size=lp.shape)).argmax(1)
            obs.append(self.cur)
            act.append(a)
            logp.append(lp[np.arange(N_ENVS), a])
            self.cur, r = self.env.step(a)
            rew.append(r)
        obs.append(self.cur)
        stacked = (np.stack(obs), np.stack(act), np.stack(logp), np.stack(rew))
        return [torch.from_numpy(s).to(self.device) for s in stacked]


class GAE(nn.Module):
    """Advantages of a whole rollout as one product with a discount matrix."""

    def __init__(self, horizon):
        super().__init__()
        t = torch.arange(horizon)
        self.register_buffer("lag", (t[None, :] - t[:, None]).clamp(min=0).float())
        self.register_buffer("upper", torch.ones(horizon, horizon).triu())

    def forward(self, rewards, values, gamma, lam):
        delta = rewards + gamma * values[1:] - values[:-1]
        weight = (gamma * lam) ** self.lag * self.upper
        adv = weight @ delta
        return adv, adv + values[:-1]


def ppo_loss(net, obs, act, old_logp, adv, ret, clip, entropy_coef):
    logp, value = net(obs)
    chosen = logp.gather(-1, act.unsqueeze(-1)).squeeze(-1)
    ratio = (chosen - old_logp).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    surrogate = torch.minimum(ratio * adv, ratio.clamp(1.0 - clip, 1.0 + clip) * adv)
    entropy = -(logp.exp() * logp).sum(-1).mean()
    return -surrogate.mean() + 0.5 * (value - ret).pow(2).mean() - entropy_coef * entropy


def anneal(start, end, frac):
    return start + (end - start) * frac


def main():
    torch.manual_seed(33)
    device = torch_xla.device()
    net = ActorCritic().to(device)
    gae = GAE(HORIZON).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-5)
    collector = Collector(device, seed=34)
    torch_xla.sync()

    for update in range(UPDATES):
        frac = update / (UPDATES - 1)
        # the planning horizon is lengthened as 1 - gamma shrinks geometrically
        gamma = 1.0 - (1.0 - GAMMA_START) * ((1.0 - GAMMA_END) / (1.0 - GAMMA_START)) ** frac
        obs, act, old_logp, rew = collector.rollout(net)
        with torch.no_grad():
            _, values = net(obs)
            adv, ret = gae(rew, values, gamma, LAM)
        torch_xla.sync()
        for _ in range(EPOCHS):
            loss = ppo_loss(net, obs[:-1], act, old_logp, adv, ret,
                            clip=anneal(CLIP_START, CLIP_END, frac), entropy_coef=anneal(0.02, 0.001, frac))
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            torch_xla.sync()
        if (update + 1) % 8 == 0:
            print(f"update {update + 1:2d} gamma {gamma:.3f} reward {rew.mean().item():.3f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
