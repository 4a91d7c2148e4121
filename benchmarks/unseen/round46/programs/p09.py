"""PPO on a vectorised cart-pole, environment on the host, networks on the device."""
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla


@dataclass
class Config:
    envs: int = 16
    horizon: int = 8
    iterations: int = 14
    epochs: int = 2
    minibatches: int = 2
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    lr: float = 2e-3
    target_kl: float = 0.05
    eval_every: int = 5
    seed: int = 9


class CartPoles:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.s = rng.uniform(-0.05, 0.05, (n, 4))
        self.t = np.zeros(n, dtype=np.int64)

    def step(self, action):
        x, xd, th, thd = self.s.T
        force = np.where(action == 1, 10.0, -10.0)
        sin, cos = np.sin(th), np.cos(th)
        tmp = (force + 0.05 * thd ** 2 * sin) / 1.1
        thacc = (9.8 * sin - cos * tmp) / (0.5 * (4 / 3 - 0.1 * cos ** 2 / 1.1))
        xacc = tmp - 0.05 * thacc * cos / 1.1
        self.s = np.stack([x + 0.02 * xd, xd + 0.02 * xacc, th + 0.02 * thd, thd + 0.02 * thacc], 1)
        self.t += 1
        done = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 0.21) | (self.t >= 200)
        if done.any():
            self.s[done] = self.rng.uniform(-0.05, 0.05, (done.sum(), 4))
            self.t[done] = 0
        return self.obs(), np.ones(self.n, np.float32), done.astype(np.float32)

    def obs(self):
        return self.s.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, obs=4, actions=2, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return torch.log_softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


@torch.no_grad()
def act(net, obs, device):
    logp, value = net(torch.from_numpy(obs).to(device))
    torch_xla.sync()
    return logp.cpu().numpy(), value.cpu().numpy()


def collect(net, env, cfg, rng, device):
    buf = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
    obs = env.obs()
    for _ in range(cfg.horizon):
        logp, value = act(net, obs, device)
        a = (rng.random(cfg.envs) < np.exp(logp[:, 1])).astype(np.int64)
        nxt, rew, done = env.step(a)
        for k, v in zip(buf, (obs, a, logp[np.arange(cfg.envs), a], value, rew, done)):
            buf[k].append(v)
        obs = nxt
    _, last = act(net, obs, device)
    buf = {k: np.stack(v) for k, v in buf.items()}
    adv, run = np.zeros_like(buf["rew"]), np.zeros(cfg.envs, np.float32)
    for t in reversed(range(cfg.horizon)):
        alive = 1.0 - buf["done"][t]
        delta = buf["rew"][t] + cfg.gamma * last * alive - buf["val"][t]
        run = delta + cfg.gamma * cfg.lam * alive * run
        adv[t], last = run, buf["val"][t]
    buf["adv"], buf["ret"] = adv, adv + buf["val"]
    return {k: v.reshape(-1, *v.shape[2:]) for k, v in buf.items()}


def update(net, opt, batch, cfg, rng, device):
    n = cfg.envs * cfg.horizon
    size = n // cfg.minibatches
    stats = None
    for _ in range(cfg.epochs):
        perm = rng.permutation(n)
        for s in range(0, n, size):
            idx = perm[s:s + size]
            mb = {k: torch.from_numpy(batch[k][idx]).to(device)
                  for k in ("obs", "act", "logp", "adv", "ret")}
            logp_all, value = net(mb["obs"])
            logp = logp_all.gather(1, mb["act"][:, None]).squeeze(1)
            adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-6)
            ratio = (logp - mb["logp"]).exp()
            pg = -torch.min(ratio * adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv).mean()
            vf = (value - mb["ret"]).pow(2).mean()
            ent = -(logp_all.exp() * logp_all).sum(-1).mean()
            loss = pg + cfg.vf_coef * vf - cfg.ent_coef * ent
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            stats = torch.stack([pg, vf, ent, (mb["logp"] - logp).mean()]).detach()
            torch_xla.sync()
        if stats[3].item() > cfg.target_kl:
            break
    return stats.cpu().tolist()


def greedy_return(net, device, seed, envs=32, limit=15):
    env = CartPoles(envs, np.random.default_rng(seed))
    alive, total = np.ones(envs), np.zeros(envs)
    for _ in range(limit):
        logp, _ = act(net, env.obs(), device)
        _, rew, done = env.step(logp.argmax(1))
        total += rew * alive
        alive *= 1.0 - done
    return total.mean()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()
    env = CartPoles(cfg.envs, rng)
    net = ActorCritic().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, eps=1e-5)
    t0 = time.time()
    for it in range(cfg.iterations):
        for group in opt.param_groups:
            group["lr"] = cfg.lr * (1.0 - it / cfg.iterations)
        batch = collect(net, env, cfg, rng, device)
        pg, vf, ent, kl = update(net, opt, batch, cfg, rng, device)
        print(f"it {it:2d} pg {pg:+.3f} vf {vf:.3f} ent {ent:.3f} kl {kl:+.4f} {time.time() - t0:.1f}s")
        if it % cfg.eval_every == 0:
            print(f"   greedy return {greedy_return(net, device, seed=100 + it):.1f}")


if __name__ == "__main__":
    main()
