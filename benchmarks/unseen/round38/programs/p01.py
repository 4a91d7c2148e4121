"""Vanilla policy gradient with a value baseline on a small pole balancing task."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 11
GAMMA = 0.98
STEPS_PER_UPDATE = 96
NUM_UPDATES = 22
MAX_EPISODE = 60


class PoleEnv:
    gravity, cart_mass, pole_mass, half_len, force, dt = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = None
        self.t = 0

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, size=4)
        self.t = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, v, th, w = self.state
        f = self.force if action == 1 else -self.force
        total = self.cart_mass + self.pole_mass
        ml = self.pole_mass * self.half_len
        tmp = (f + ml * w * w * math.sin(th)) / total
        denom = self.half_len * (4.0 / 3.0 - self.pole_mass * math.cos(th) ** 2 / total)
        th_acc = (self.gravity * math.sin(th) - math.cos(th) * tmp) / denom
        x_acc = tmp - ml * th_acc * math.cos(th) / total
        self.state = np.array(
            [x + self.dt * v, v + self.dt * x_acc, th + self.dt * w, w + self.dt * th_acc]
        )
        self.t += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.t >= MAX_EPISODE
        return self.state.astype(np.float32), 1.0, done


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=4, hidden=32, n_actions=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


def discounted(rewards):
    out, running = [], 0.0
    for r in reversed(rewards):
        running = r + GAMMA * running
        out.append(running)
    return out[::-1]


@torch.no_grad()
def act(model, obs, device, rng):
    logits, _ = model(torch.from_numpy(obs).unsqueeze(0).to(device))
    torch_xla.sync()
    p = F.softmax(logits.cpu()[0], dim=-1).numpy().astype(np.float64)
    return int(rng.choice(len(p), p=p / p.sum()))


def collect(model, env, device, rng):
    obs_buf, act_buf, ret_buf, lengths = [], [], [], []
    while len(obs_buf) < STEPS_PER_UPDATE:
        obs, done, rewards = env.reset(), False, []
        while not done:
            a = act(model, obs, device, rng)
            obs_buf.append(obs)
            act_buf.append(a)
            obs, r, done = env.step(a)
            rewards.append(r)
        ret_buf.extend(discounted(rewards))
        lengths.append(len(rewards))
    batch = {
        "obs": torch.from_numpy(np.stack(obs_buf)),
        "act": torch.tensor(act_buf, dtype=torch.long),
        "ret": torch.tensor(ret_buf, dtype=torch.float32),
    }
    return batch, lengths


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()
    env = PoleEnv(SEED)
    model = ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    for update in range(NUM_UPDATES):
        batch, lengths = collect(model, env, device, rng)
        batch = {k: v.to(device) for k, v in batch.items()}

        logits, values = model(batch["obs"])
        adv = batch["ret"] - values.detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        logp = F.log_softmax(logits, dim=-1)
        taken = logp.gather(1, batch["act"].unsqueeze(1)).squeeze(1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(taken * adv).mean() + 0.5 * F.mse_loss(values, batch["ret"]) - 0.01 * entropy

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()

        if update % 5 == 0:
            print(f"update {update:3d} loss {loss.item():.3f} mean episode {np.mean(lengths):.1f}")


if __name__ == "__main__":
    main()
