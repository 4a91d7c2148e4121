"""PPO on a batch of point-mass docking environments; policy on XLA, simulator on the host."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

ENVS = 16
HORIZON = 8
ITERATIONS = 22
PPO_EPOCHS = 2
MINIBATCH = 64
GAMMA, LAMBDA = 0.97, 0.92
CLIP_START, CLIP_END = 0.3, 0.05
ENT_START, ENT_END = 0.02, 0.002
TARGET_KL = 0.05


class DockingVec:
    """2-D thrusters; the reward is progress to the dock minus fuel; random resets."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self._fresh(n)

    def _fresh(self, n):
        pos = self.rng.uniform(-1, 1, (n, 2))
        vel = self.rng.uniform(-0.1, 0.1, (n, 2))
        return np.concatenate([pos, vel], 1).astype(np.float32)

    def obs(self):
        return torch.from_numpy(self.state.copy())

    def step(self, action):
        before = np.linalg.norm(self.state[:, :2], axis=1)
        self.state[:, 2:] = 0.9 * self.state[:, 2:] + 0.1 * np.clip(action, -1, 1)
        self.state[:, :2] += self.state[:, 2:]
        after = np.linalg.norm(self.state[:, :2], axis=1)
        reward = (before - after) * 5 - 0.01 * (action ** 2).sum(1)
        done = (after < 0.08) | (after > 2.5)
        reward = reward + np.where(after < 0.08, 1.0, 0.0)
        if done.any():
            self.state[done] = self._fresh(int(done.sum()))
        return reward.astype(np.float32), done.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(),
                                  nn.Linear(hidden, hidden), nn.Tanh())
        self.mu = nn.Linear(hidden, 2)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, obs):
        h = self.body(obs)
        return self.mu(h), self.value(h).squeeze(-1)

    def log_prob(self, mu, act):
        z = (act - mu) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.9189385).sum(-1)


@torch.no_grad()
def rollout(model, env, device):
    buf = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
    for _ in range(HORIZON):
        obs = env.obs().to(device)
        mu, val = model(obs)
        act = mu + torch.exp(model.log_std) * torch.randn_like(mu)
        logp = model.log_prob(mu, act)
        torch_xla.sync()
        rew, done = env.step(act.cpu().numpy())
        for k, v in zip(buf, (obs.cpu(), act.cpu(), logp.cpu(), val.cpu(),
                              torch.from_numpy(rew), torch.from_numpy(done))):
            buf[k].append(v)
    _, last = model(env.obs().to(device))
    torch_xla.sync()
    return {k: torch.stack(v) for k, v in buf.items()}, last.cpu()


def gae(buf, last):
    adv, running, nxt = torch.zeros_like(buf["rew"]), torch.zeros(ENVS), last
    for t in reversed(range(HORIZON)):
        live = 1.0 - buf["done"][t]
        delta = buf["rew"][t] + GAMMA * nxt * live - buf["val"][t]
        running = delta + GAMMA * LAMBDA * live * running
        adv[t], nxt = running, buf["val"][t]
    return adv, adv + buf["val"]


def main():
    torch.manual_seed(61)
    device = torch_xla.device()
    xm.set_rng_state(61, device)
    perm_gen = torch.Generator().manual_seed(62)
    env = DockingVec(ENVS, seed=63)
    model = ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-5)
    torch_xla.sync()

    for it in range(ITERATIONS):
        frac = it / ITERATIONS
        clip = CLIP_START + frac * (CLIP_END - CLIP_START)
        ent_coef = ENT_START + frac * (ENT_END - ENT_START)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1.0 - frac)

        buf, last = rollout(model, env, device)
        adv, ret = gae(buf, last)
        flat = [t.flatten(0, 1).to(device)
                for t in (buf["obs"], buf["act"], buf["logp"], adv, ret)]

        kl, updates = 0.0, 0
        for _ in range(PPO_EPOCHS):
            if kl > TARGET_KL:
                break
            order = torch.randperm(ENVS * HORIZON, generator=perm_gen)
            for idx in order.split(MINIBATCH):
                idx = idx.to(device)
                obs, act, old_logp, a, r = (t.index_select(0, idx) for t in flat)
                a = (a - a.mean()) / (a.std() + 1e-6)
                mu, val = model(obs)
                log_ratio = model.log_prob(mu, act) - old_logp
                ratio = log_ratio.exp()
                clipped = torch.clamp(ratio, 1.0 - clip, 1.0 + clip)
                pg = -torch.min(ratio * a, clipped * a).mean()
                entropy = model.log_std.sum()
                loss = pg + 0.5 * (val - r).pow(2).mean() - ent_coef * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                approx_kl = (ratio - 1 - log_ratio).mean().detach()
                torch_xla.sync()
                updates += 1
            kl = approx_kl.item()
        if (it + 1) % 4 == 0:
            print(f"iter {it + 1:3d}  reward {buf['rew'].mean():.4f}  kl {kl:.4f}  "
                  f"updates {updates}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
