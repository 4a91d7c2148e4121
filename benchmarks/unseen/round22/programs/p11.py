"""Recurrent actor-critic on a small partially observed corridor task."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    obs_dim=6,
    n_actions=3,
    hidden=24,
    rollout=6,
    updates=40,
    gamma=0.97,
    lam=0.95,
    lr=2e-3,
    ent_coef=0.01,
    vf_coef=0.5,
    max_grad_norm=0.5,
    seed=3,
)


class Corridor:
    """The goal side is shown only in the first observation of an episode."""

    def __init__(self, obs_dim, rng):
        self.obs_dim, self.rng = obs_dim, rng
        self.reset()

    def reset(self):
        self.pos, self.t = 0, 0
        self.goal = int(self.rng.choice([-4, 4]))
        return self._obs()

    def _obs(self):
        o = np.zeros(self.obs_dim, dtype=np.float32)
        o[0] = self.pos / 4.0
        o[1] = np.sign(self.goal) if self.t == 0 else 0.0
        o[2:] = 0.05 * self.rng.standard_normal(self.obs_dim - 2)
        return o

    def step(self, action):
        self.t += 1
        self.pos += action - 1
        hit = self.pos == self.goal
        done = hit or abs(self.pos) >= 4 or self.t >= 14
        reward = 1.0 if hit else (-0.5 if done else -0.02)
        obs = self.reset() if done else self._obs()
        return obs, reward, done


class RecurrentPolicy(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = nn.Linear(cfg["obs_dim"], cfg["hidden"])
        self.cell = nn.RNNCell(cfg["hidden"], cfg["hidden"])
        self.pi = nn.Linear(cfg["hidden"], cfg["n_actions"])
        self.v = nn.Linear(cfg["hidden"], 1)

    def forward(self, obs, h):
        h = self.cell(torch.tanh(self.enc(obs)), h)
        return self.pi(h), self.v(h).squeeze(-1), h

    def unroll(self, obs, dones, h):
        logits, values = [], []
        for t in range(obs.size(0)):
            lg, v, h = self(obs[t : t + 1], h)
            logits.append(lg)
            values.append(v)
            if dones[t]:
                h = torch.zeros_like(h)
        return torch.cat(logits), torch.cat(values)


def gae(rewards, values, dones, last_value, gamma, lam):
    adv = np.zeros(len(rewards), dtype=np.float32)
    running = 0.0
    for t in reversed(range(len(rewards))):
        nxt = last_value if t == len(rewards) - 1 else values[t + 1]
        nonterminal = 1.0 - float(dones[t])
        delta = rewards[t] + gamma * nxt * nonterminal - values[t]
        running = delta + gamma * lam * nonterminal * running
        adv[t] = running
    return adv, adv + np.asarray(values, dtype=np.float32)


class A2CTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg["seed"])
        torch.manual_seed(cfg["seed"])
        self.device = torch_xla.device()
        self.env = Corridor(cfg["obs_dim"], self.rng)
        self.net = RecurrentPolicy(cfg).to(self.device)
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=cfg["lr"])
        self.obs = self.env.reset()
        self.h = np.zeros((1, cfg["hidden"]), dtype=np.float32)

    @torch.no_grad()
    def act(self):
        obs = torch.from_numpy(self.obs[None]).to(self.device)
        h = torch.from_numpy(self.h).to(self.device)
        logits, value, h = self.net(obs, h)
        xm.mark_step()
        p = F.softmax(logits.cpu(), -1).numpy()[0].astype(np.float64)
        action = int(self.rng.choice(len(p), p=p / p.sum()))
        return action, float(value.cpu()), h.cpu().numpy()

    def collect(self):
        h0 = self.h.copy()
        obs, acts, rews, vals, dones = [], [], [], [], []
        for _ in range(self.cfg["rollout"]):
            a, v, h = self.act()
            obs.append(self.obs)
            self.obs, r, d = self.env.step(a)
            self.h = np.zeros_like(h) if d else h
            acts.append(a), rews.append(r), vals.append(v), dones.append(d)
        _, last_v, _ = self.act()
        adv, ret = gae(rews, vals, dones, last_v, self.cfg["gamma"], self.cfg["lam"])
        return np.stack(obs), np.array(acts), dones, adv, ret, h0, rews

    def update(self, obs, acts, dones, adv, ret, h0):
        cfg, dev = self.cfg, self.device
        obs, acts, adv, ret, h0 = (torch.from_numpy(x).to(dev) for x in (obs, acts, adv, ret, h0))
        logits, values = self.net.unroll(obs, dones, h0)
        logp = F.log_softmax(logits, -1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        pg = -(logp.gather(1, acts[:, None]).squeeze(1) * adv).mean()
        loss = pg + cfg["vf_coef"] * F.mse_loss(values, ret) - cfg["ent_coef"] * entropy
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), cfg["max_grad_norm"])
        self.opt.step()
        xm.mark_step()
        return loss

    def run(self):
        for u in range(self.cfg["updates"]):
            *batch, rews = self.collect()
            loss = self.update(*batch)
            if u % 10 == 0:
                print(f"update {u:3d} loss {loss.item():.4f} reward {np.sum(rews):.2f}")


if __name__ == "__main__":
    A2CTrainer(CFG).run()
