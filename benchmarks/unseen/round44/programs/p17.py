"""Double DQN with dueling heads and prioritized replay on a small windy grid."""
import dataclasses

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SIZE, N_ACTIONS = 6, 4
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


@dataclasses.dataclass
class Args:
    updates: int = 40
    warmup: int = 256
    env_steps_per_update: int = 4
    batch_size: int = 32
    gamma: float = 0.97
    lr: float = 1e-3
    alpha: float = 0.6
    beta0: float = 0.4
    eps_start: float = 1.0
    eps_end: float = 0.1
    target_every: int = 8
    capacity: int = 1024
    seed: int = 4


class WindyGrid:
    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.pos = self.rng.randint(0, SIZE, 2)
        self.goal = self.rng.randint(0, SIZE, 2)
        self.t = 0
        return self.obs()

    def obs(self):
        o = np.zeros((2, SIZE, SIZE), dtype="float32")
        o[0, self.pos[0], self.pos[1]] = 1.0
        o[1, self.goal[0], self.goal[1]] = 1.0
        return o.reshape(-1)

    def step(self, action):
        move = np.array(MOVES[action])
        if self.rng.rand() < 0.1:
            move = move + np.array((1, 0))
        self.pos = np.clip(self.pos + move, 0, SIZE - 1)
        self.t += 1
        reached = bool((self.pos == self.goal).all())
        done = reached or self.t >= 30
        return self.obs(), (1.0 if reached else -0.02), done


class PrioritizedReplay:
    """Proportional prioritisation, kept on the host."""

    def __init__(self, args, rng):
        n, d = args.capacity, 2 * SIZE * SIZE
        self.rng, self.alpha, self.capacity = rng, args.alpha, n
        self.s, self.s2 = np.zeros((n, d), "float32"), np.zeros((n, d), "float32")
        self.a, self.r, self.d = np.zeros(n, "int64"), np.zeros(n, "float32"), np.zeros(n, "float32")
        self.prio = np.zeros(n, "float64")
        self.ptr, self.size, self.max_prio = 0, 0, 1.0

    def push(self, s, a, r, s2, done):
        i = self.ptr
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = s, a, r, s2, done
        self.prio[i] = self.max_prio ** self.alpha
        self.ptr, self.size = (i + 1) % self.capacity, min(self.size + 1, self.capacity)

    def sample(self, n):
        p = self.prio[: self.size] / self.prio[: self.size].sum()
        idx = self.rng.choice(self.size, n, p=p)
        batch = [self.s[idx], self.a[idx], self.r[idx], self.s2[idx], self.d[idx]]
        batch.append((self.size * p[idx]).astype("float32"))
        return idx, [torch.from_numpy(b) for b in batch]

    def update(self, idx, td):
        self.prio[idx] = (np.abs(td) + 1e-3) ** self.alpha
        self.max_prio = max(self.max_prio, float(np.abs(td).max()))


class DuelingNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * SIZE * SIZE, hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden), nn.ReLU())
        self.value, self.adv = nn.Linear(hidden, 1), nn.Linear(hidden, N_ACTIONS)

    def forward(self, x):
        h = self.body(x)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


def learn(net, target, opt, batch, gamma, beta):
    s, a, r, s2, d, scaled_p = batch
    weights = scaled_p.pow(-beta)
    weights = weights / weights.max()
    with torch.no_grad():
        best = net(s2).argmax(1, keepdim=True)
        y = r + gamma * (1 - d) * target(s2).gather(1, best).squeeze(1)
    q = net(s).gather(1, a[:, None]).squeeze(1)
    loss = (weights * F.smooth_l1_loss(q, y, reduction="none")).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    torch_xla.sync()
    return loss.detach(), (y - q).detach()


def main():
    args = Args()
    torch.manual_seed(args.seed)
    rng = np.random.RandomState(args.seed)
    device = torch_xla.device()
    env, replay = WindyGrid(rng), PrioritizedReplay(args, rng)
    net, target = DuelingNet().to(device), DuelingNet().to(device)
    target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)

    obs, returns, ret = env.reset(), [], 0.0
    for step in range(args.updates):
        frac = step / (args.updates - 1)
        eps = args.eps_start + frac * (args.eps_end - args.eps_start)
        for _ in range(args.warmup if step == 0 else args.env_steps_per_update):
            if rng.rand() < eps:
                action = rng.randint(N_ACTIONS)
            else:
                with torch.no_grad():
                    q = net(torch.from_numpy(obs)[None].to(device))
                action = int(q.argmax(1).item())
            nxt, r, done = env.step(action)
            replay.push(obs, action, r, nxt, float(done))
            ret += r
            obs = nxt
            if done:
                returns.append(ret)
                obs, ret = env.reset(), 0.0

        idx, batch = replay.sample(args.batch_size)
        batch = [b.to(device) for b in batch]
        beta = args.beta0 + frac * (1.0 - args.beta0)
        loss, td = learn(net, target, opt, batch, args.gamma, beta)
        replay.update(idx, td.cpu().numpy())
        if (step + 1) % args.target_every == 0:
            target.load_state_dict(net.state_dict())
            print(f"update {step + 1} loss {loss.item():.4f} eps {eps:.2f} "
                  f"return {np.mean(returns[-10:]):.3f}")


if __name__ == "__main__":
    main()
