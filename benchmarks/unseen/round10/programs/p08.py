"""A2C on a vectorised toy control task, with a small callback-driven trainer."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ENVS, HORIZON, OBS, ACTIONS, GAMMA = 16, 6, 4, 3, 0.95


class Track:
    """Keep a noisy point near the origin by pushing left, nothing, right."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.normal(size=(n, 2))

    def observe(self):
        x, v = self.state.T
        return torch.tensor(np.stack([x, v, np.sin(x), np.cos(x)], 1), dtype=torch.float32)

    def step(self, action):
        x, v = self.state.T
        v = 0.9 * v + 0.3 * (action - 1) + 0.05 * self.rng.normal(size=x.shape)
        x = x + 0.3 * v
        far = np.abs(x) > 3
        x[far], v[far] = self.rng.normal(size=far.sum()), 0
        self.state = np.stack([x, v], 1)
        return torch.tensor(-np.abs(x) - 3.0 * far, dtype=torch.float32), torch.tensor(far, dtype=torch.float32)


class ActorCritic(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi, self.v = nn.Linear(width, ACTIONS), nn.Linear(width, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class Callback:
    def on_loss(self, trainer, parts): ...
    def on_backward(self, trainer): ...
    def on_step_end(self, trainer): ...


class ScalarWriter(Callback):
    def __init__(self, every):
        self.every, self.history = every, []

    def on_loss(self, trainer, parts):
        if (trainer.iteration + 1) % self.every == 0:
            self.history.append({k: v.item() for k, v in parts.items()})


class GradientMonitor(Callback):
    def __init__(self, every):
        self.every, self.norms = every, []

    def on_backward(self, trainer):
        if (trainer.iteration + 1) % self.every == 0:
            total = sum(p.grad.pow(2).sum() for p in trainer.model.parameters())
            self.norms.append(total.sqrt().item())


class Printer(Callback):
    def __init__(self, writer, monitor):
        self.writer, self.monitor = writer, monitor

    def on_step_end(self, trainer):
        if (trainer.iteration + 1) % 12 == 0:
            row = {k: round(v, 3) for k, v in self.writer.history[-1].items()}
            print(trainer.iteration + 1, row, f"grad {self.monitor.norms[-1]:.3f} return {trainer.mean_reward:.3f}")


class A2C:
    def __init__(self, callbacks, seed=0):
        torch.manual_seed(seed)
        self.device = torch_xla.device()
        self.env = Track(N_ENVS, seed)
        self.model = ActorCritic().to(self.device)
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=3e-3)
        self.callbacks, self.iteration, self.mean_reward = callbacks, 0, 0.0

    def emit(self, event, *args):
        for cb in self.callbacks:
            getattr(cb, event)(self, *args)

    @torch.no_grad()
    def rollout(self):
        obs, act, rew, done = [], [], [], []
        for _ in range(HORIZON):
            o = self.env.observe()
            logits, _ = self.model(o.to(self.device))
            torch_xla.sync()
            a = torch.distributions.Categorical(logits=logits.cpu()).sample()
            r, d = self.env.step(a.numpy())
            obs.append(o), act.append(a), rew.append(r), done.append(d)
        ret, out = torch.zeros(N_ENVS), []
        for r, d in zip(reversed(rew), reversed(done)):
            ret = r + GAMMA * (1 - d) * ret
            out.insert(0, ret)
        self.mean_reward = torch.stack(rew).mean().item()
        return torch.cat(obs).to(self.device), torch.cat(act).to(self.device), torch.cat(out).to(self.device)

    def train_iteration(self):
        obs, act, ret = self.rollout()
        logits, value = self.model(obs)
        logp = logits.log_softmax(-1)
        adv = ret - value.detach()
        parts = {
            "policy": -(logp.gather(1, act.unsqueeze(1)).squeeze(1) * adv).mean(),
            "value": F.mse_loss(value, ret),
            "entropy": -(logp.exp() * logp).sum(-1).mean(),
        }
        self.emit("on_loss", parts)
        self.opt.zero_grad()
        (parts["policy"] + 0.5 * parts["value"] - 0.01 * parts["entropy"]).backward()
        self.emit("on_backward")
        self.opt.step()
        torch_xla.sync()
        self.emit("on_step_end")
        self.iteration += 1


if __name__ == "__main__":
    writer, monitor = ScalarWriter(every=4), GradientMonitor(every=6)
    trainer = A2C([writer, monitor, Printer(writer, monitor)])
    for _ in range(36):
        trainer.train_iteration()
