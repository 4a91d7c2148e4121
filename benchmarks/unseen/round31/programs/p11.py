"""Advantage actor-critic on a batch of simulated pendulums (numpy on the host, networks on the XLA device)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_ENVS = 16
HORIZON = 6
UPDATES = 20
GAMMA = 0.97
LAM = 0.95


class PendulumBatch:
    """Swing-up with a small discrete set of torques."""

    torques = np.array([-2.0, 0.0, 2.0], dtype=np.float32)

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.th = self.rng.uniform(-np.pi, np.pi, n).astype(np.float32)
        self.om = np.zeros(n, dtype=np.float32)
        self.age = self.rng.integers(0, 50, n)

    def obs(self):
        return np.stack([np.cos(self.th), np.sin(self.th), self.om / 8.0], axis=1).astype(np.float32)

    def step(self, action):
        u = self.torques[action]
        angle = (self.th + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle ** 2 + 0.1 * self.om ** 2 + 0.001 * u ** 2)
        self.om = np.clip(self.om + (15.0 * np.sin(self.th) + 3.0 * u) * 0.05, -8.0, 8.0).astype(np.float32)
        self.th = self.th + self.om * 0.05
        self.age += 1
        done = self.age >= 100
        if done.any():
            k = int(done.sum())
            self.th[done] = self.rng.uniform(-np.pi, np.pi, k)
            self.om[done] = 0.0
            self.age[done] = 0
        return self.obs(), reward.astype(np.float32), done.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=3, actions=3, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, actions)
        self.v = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class ReturnNorm(nn.Module):
    """Running scale of the returns, kept with the checkpoint."""

    def __init__(self, decay=0.99, eps=1e-4):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("mean_sq", torch.zeros(()))
        self.register_buffer("decay", torch.tensor(decay))
        self.eps = eps
        self.updates = 0

    @torch.no_grad()
    def update(self, ret):
        self.updates += 1
        self.mean.mul_(self.decay).add_((1 - self.decay) * ret.mean())
        self.mean_sq.mul_(self.decay).add_((1 - self.decay) * ret.pow(2).mean())

    def stats(self):
        correction = 1.0 - self.decay ** self.updates
        mean = self.mean / correction
        var = (self.mean_sq / correction - mean ** 2).clamp(min=self.eps)
        return mean, var.sqrt()

    def normalize(self, ret):
        mean, std = self.stats()
        return (ret - mean) / std

    def denormalize(self, value):
        mean, std = self.stats()
        return value * std + mean


def collect(env, net, device, obs):
    all_obs, all_act, all_rew, all_done = [], [], [], []
    for _ in range(HORIZON):
        with torch.no_grad():
            logits, _ = net(torch.from_numpy(obs).to(device))
            action = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
        torch_xla.sync()
        act = action.cpu().numpy()
        nxt, rew, done = env.step(act)
        all_obs.append(obs)
        all_act.append(act)
        all_rew.append(rew)
        all_done.append(done)
        obs = nxt
    batch = [np.stack(a) for a in (all_obs, all_act, all_rew, all_done)]
    return [torch.from_numpy(a).to(device) for a in batch], obs


def gae(rew, done, value, last):
    adv = torch.zeros_like(last)
    out = []
    for t in reversed(range(HORIZON)):
        nxt = last if t == HORIZON - 1 else value[t + 1]
        keep = 1.0 - done[t]
        delta = rew[t] + GAMMA * nxt * keep - value[t]
        adv = delta + GAMMA * LAM * keep * adv
        out.append(adv)
    return torch.stack(out[::-1])


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    env = PendulumBatch(NUM_ENVS, seed=3)
    net = ActorCritic().to(device)
    norm = ReturnNorm().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    obs = env.obs()
    for update in range(UPDATES):
        (o, a, r, d), obs = collect(env, net, device, obs)
        logits, v_norm = net(o)
        with torch.no_grad():
            _, last_norm = net(torch.from_numpy(obs).to(device))
            if norm.updates:
                value, last = norm.denormalize(v_norm), norm.denormalize(last_norm)
            else:
                value, last = v_norm.detach(), last_norm
            adv = gae(r, d, value, last)
            ret = adv + value
            norm.update(ret)
            target = norm.normalize(ret)
            adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        logp = F.log_softmax(logits, dim=-1)
        chosen = logp.gather(-1, a.unsqueeze(-1)).squeeze(-1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * adv).mean() + 0.5 * F.mse_loss(v_norm, target) - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        xm.optimizer_step(opt, barrier=True)
        if update % 5 == 4:
            print(f"update {update + 1:3d} loss {loss.item():.3f} reward {r.mean().item():.2f}")


if __name__ == "__main__":
    main()
