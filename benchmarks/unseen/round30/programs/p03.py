"""Double DQN with prioritized experience replay on a toy chain world."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Args:
    obs_dim: int = 6
    n_actions: int = 3
    buffer_size: int = 256
    learning_starts: int = 64
    train_frequency: int = 4
    total_steps: int = 184
    batch_size: int = 32
    gamma: float = 0.97
    alpha: float = 0.6
    beta0: float = 0.4
    lr: float = 1e-3
    tau: float = 0.02


class ChainEnv:

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.reset()

    def obs(self):
        o = np.zeros(self.n, dtype=np.float32)
        o[self.pos] = 1.0
        return o

    def reset(self):
        self.pos, self.t = 0, 0
        return self.obs()

    def step(self, a):
        self.t += 1
        move = {0: -1, 1: 0, 2: 1}[a]
        if self.rng.rand() < 0.1:
            move = -move
        self.pos = int(np.clip(self.pos + move, 0, self.n - 1))
        r = 1.0 if self.pos == self.n - 1 else -0.01
        return self.obs(), r, self.t >= 20


class PrioritizedReplay:

    def __init__(self, args, rng):
        n, d = args.buffer_size, args.obs_dim
        self.obs = np.zeros((n, d), np.float32)
        self.nxt = np.zeros((n, d), np.float32)
        self.act = np.zeros(n, np.int64)
        self.rew = np.zeros(n, np.float32)
        self.done = np.zeros(n, np.float32)
        self.prio = np.zeros(n, np.float32)
        self.n, self.i, self.size, self.rng, self.alpha = n, 0, 0, rng, args.alpha

    def add(self, o, a, r, o2, d):
        k = self.i
        self.obs[k], self.act[k], self.rew[k], self.nxt[k], self.done[k] = o, a, r, o2, d
        self.prio[k] = self.prio.max() or 1.0
        self.i = (k + 1) % self.n
        self.size = min(self.size + 1, self.n)

    def sample(self, bs):
        p = self.prio[:self.size]**self.alpha
        p = p / p.sum()
        idx = self.rng.choice(self.size, bs, p=p / p.sum())
        batch = [self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx]]
        return idx, [torch.from_numpy(b) for b in batch], torch.from_numpy(p[idx] * self.size)


def q_network(args):
    return nn.Sequential(nn.Linear(args.obs_dim, 32), nn.ReLU(), nn.Linear(32, args.n_actions))


def update(q, target, opt, batch, scaled_p, beta, args):
    obs, act, rew, nxt, done = batch
    with torch.no_grad():
        best = q(nxt).argmax(1, keepdim=True)
        boot = target(nxt).gather(1, best).squeeze(1)
        y = rew + args.gamma * (1.0 - done) * boot
        w = scaled_p ** (-beta)
        w = w / w.max()
    td = y - q(obs).gather(1, act[:, None]).squeeze(1)
    loss = (w * td.pow(2)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for pt, p in zip(target.parameters(), q.parameters()):
            pt.lerp_(p, args.tau)
    torch_xla.sync()
    return loss.detach(), td.detach().abs() + 1e-3


def main(args):
    rng = np.random.RandomState(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    q = q_network(args).to(device)
    target = q_network(args).to(device)
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=args.lr)
    actor = q_network(args)  # host copy for acting
    env, buf = ChainEnv(args.obs_dim, rng), PrioritizedReplay(args, rng)

    obs, ret, returns = env.reset(), 0.0, []
    for step in range(args.total_steps):
        eps = max(0.05, 1.0 - step / 100)
        if rng.rand() < eps:
            a = rng.randint(args.n_actions)
        else:
            a = int(actor(torch.from_numpy(obs)).argmax())
        obs2, r, done = env.step(a)
        buf.add(obs, a, r, obs2, float(done))
        ret += r
        obs = obs2
        if done:
            returns.append(ret)
            obs, ret = env.reset(), 0.0
        if step >= args.learning_starts and step % args.train_frequency == 0:
            frac = (step - args.learning_starts) / (args.total_steps - args.learning_starts)
            beta = args.beta0 + frac * (1.0 - args.beta0)
            idx, batch, sp = buf.sample(args.batch_size)
            loss, new_prio = update(q, target, opt, [b.to(device) for b in batch], sp.to(device), beta, args)
            buf.prio[idx] = new_prio.cpu().numpy()
            if step % 40 == 0:
                actor.load_state_dict({k: v.cpu() for k, v in q.state_dict().items()})
                print(f"{step=} loss={loss.item():.4f} {beta=:.2f} return={np.mean(returns[-5:]):.2f}")


if __name__ == "__main__":
    main(Args())
