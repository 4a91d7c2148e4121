"""Decision Transformer on a reservoir-control task: offline training, then rollout."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STATE, ACT, K, HORIZON = 3, 1, 8, 40


class Reservoirs:
    """A vector of independent reservoirs: keep the level near its target, spend little pumping."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n

    def reset(self):
        self.level = self.rng.uniform(0.2, 0.8, self.n)
        self.target = self.rng.uniform(0.3, 0.7, self.n)
        self.demand = self.rng.uniform(-0.05, 0.05, self.n)
        return self.observe()

    def observe(self):
        return np.stack([self.level, self.target, self.demand], axis=1).astype(np.float32)

    def step(self, action):
        action = np.clip(action[:, 0], -0.2, 0.2)
        self.demand = 0.9 * self.demand + self.rng.normal(0, 0.01, self.n)
        self.level = np.clip(self.level + action - self.demand, 0, 1)
        reward = 1.0 - 4.0 * (self.level - self.target) ** 2 - 0.5 * np.abs(action)
        return self.observe(), reward.astype(np.float32)


def collect(n, seed):
    env = Reservoirs(n, seed)
    rng = np.random.default_rng(seed + 1)
    skill = rng.uniform(0, 1, size=(n, 1))
    s = env.reset()
    states, actions, rewards = [], [], []
    for _ in range(HORIZON):
        a = skill * 0.5 * (s[:, 1:2] - s[:, 0:1]) + (1 - skill) * rng.normal(0, 0.1, size=(n, 1))
        states.append(s)
        actions.append(a.astype(np.float32))
        s, r = env.step(a)
        rewards.append(r)
    rewards = np.stack(rewards, 1)
    rtg = rewards[:, ::-1].cumsum(1)[:, ::-1].copy() / HORIZON
    return np.stack(states, 1), np.stack(actions, 1), rtg[..., None].astype(np.float32)


def sample_windows(data, batch, rng):
    states, actions, rtg = data
    rows = rng.integers(0, len(states), batch)
    starts = rng.integers(0, HORIZON - K + 1, batch)
    steps = starts[:, None] + np.arange(K)
    pick = lambda x: torch.from_numpy(x[rows[:, None], steps])
    return pick(states), pick(actions), pick(rtg), torch.from_numpy(steps), torch.ones(batch, K)


class DecisionTransformer(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.embed_t = nn.Embedding(HORIZON, dim)
        self.embed_r, self.embed_s, self.embed_a = (nn.Linear(i, dim) for i in (1, STATE, ACT))
        self.block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(dim, ACT)
        self.register_buffer("causal", torch.full((3 * K, 3 * K), -1e4).triu(1))

    def forward(self, states, actions, rtg, timesteps, mask):
        b = states.shape[0]
        t = self.embed_t(timesteps)
        tokens = torch.stack([self.embed_r(rtg) + t, self.embed_s(states) + t, self.embed_a(actions) + t], dim=2)
        keys = (1.0 - mask).repeat_interleave(3, dim=1) * -1e4
        attn = (self.causal + keys[:, None, :]).repeat_interleave(self.heads, dim=0)
        h = self.block(tokens.view(b, 3 * K, -1), src_mask=attn)
        return 0.2 * torch.tanh(self.head(h.view(b, K, 3, -1)[:, :, 1]))

    def get_action(self, states, actions, rtg, timesteps):
        # the model always sees a full window: crop to the last K, left-pad with zeros
        n = min(K, states.shape[1])
        states, actions = states[:, -n:], actions[:, -n:]
        rtg, timesteps = rtg[:, -n:], timesteps[:, -n:]
        mask = F.pad(torch.ones(states.shape[0], n, device=states.device), (K - n, 0))
        left = (0, 0, K - n, 0)
        pred = self(F.pad(states, left), F.pad(actions, left), F.pad(rtg, left),
                    F.pad(timesteps, (K - n, 0)), mask)
        return pred[:, -1]


@torch.no_grad()
def rollout(model, env, target_return, device):
    model.eval()
    n = env.n
    states = torch.from_numpy(env.reset()).to(device).unsqueeze(1)
    actions = torch.zeros(n, 0, ACT, device=device)
    rtg = torch.full((n, 1, 1), target_return, device=device)
    timesteps = torch.zeros(n, 1, dtype=torch.long, device=device)
    total = np.zeros(n)
    for t in range(HORIZON):
        actions = torch.cat([actions, torch.zeros(n, 1, ACT, device=device)], dim=1)
        action = model.get_action(states, actions, rtg, timesteps)
        actions[:, -1] = action
        torch_xla.sync()
        obs, reward = env.step(action.cpu().numpy())
        total += reward
        if t + 1 == HORIZON:
            break
        obs = torch.from_numpy(obs).to(device).unsqueeze(1)
        spent = torch.from_numpy(reward).to(device).view(n, 1, 1) / HORIZON
        states = torch.cat([states, obs], dim=1)
        rtg = torch.cat([rtg, rtg[:, -1:] - spent], dim=1)
        timesteps = torch.cat([timesteps, timesteps[:, -1:] + 1], dim=1)
    return total.mean() / HORIZON


def main():
    torch.manual_seed(9)
    rng = np.random.default_rng(9)
    device = torch_xla.device()
    data = collect(96, seed=9)
    model = DecisionTransformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    for step in range(1, 26):
        states, actions, rtg, timesteps, mask = (x.to(device) for x in sample_windows(data, 32, rng))
        loss = F.mse_loss(model(states, actions, rtg, timesteps, mask), actions)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"step {step:3d}  mse {loss.item():.5f}")
    print(f"return at target 0.95: {rollout(model, Reservoirs(16, 100), 0.95, device):.4f}")


if __name__ == "__main__":
    main()
