"""Off-policy gait learning for a point-mass quadruped (TD3-flavoured, tiny)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT = 10, 4
ROBOTS = 8
CAPACITY = 256
DISCOUNT = 0.97
STEPS = 36


def mlp(i, o, last=None):
    layers = [nn.Linear(i, 24), nn.ReLU(), nn.Linear(24, o)]
    if last is not None:
        layers.append(last)
    return nn.Sequential(*layers)


class Terrain:
    """A vectorised, purely linear stand-in for the physics, on the device."""

    def __init__(self, device):
        g = torch.Generator().manual_seed(21)
        a = torch.randn(OBS, OBS, generator=g)
        self.a = (0.9 * a / torch.linalg.norm(a, 2)).to(device)
        self.b = (0.3 * torch.randn(ACT, OBS, generator=g)).to(device)
        self.state = torch.zeros(ROBOTS, OBS, device=device)

    def step(self, action, push):
        self.state = self.state @ self.a + action @ self.b + push
        forward = self.state[:, 0]
        effort = action.pow(2).sum(1)
        return self.state, forward - 0.05 * effort


class Replay:
    def __init__(self, device):
        self.obs = torch.zeros(CAPACITY, ROBOTS, OBS, device=device)
        self.act = torch.zeros(CAPACITY, ROBOTS, ACT, device=device)
        self.rew = torch.zeros(CAPACITY, ROBOTS, device=device)
        self.nxt = torch.zeros(CAPACITY, ROBOTS, OBS, device=device)
        self.cursor = 0
        self.filled = 0

    def add(self, obs, act, rew, nxt):
        i = self.cursor
        self.obs[i] = obs
        self.act[i] = act
        self.rew[i] = rew
        self.nxt[i] = nxt
        self.cursor = (i + 1) % CAPACITY
        self.filled = min(self.filled + 1, CAPACITY)

    def sample(self, n, gen):
        idx = torch.randint(0, self.filled, (n,), generator=gen).to(self.obs.device)
        pick = lambda t: t.index_select(0, idx).flatten(0, 1)
        return pick(self.obs), pick(self.act), self.rew.index_select(0, idx).flatten(), pick(self.nxt)


def main():
    torch.manual_seed(21)
    gen = torch.Generator().manual_seed(22)
    device = torch_xla.device()
    actor = mlp(OBS, ACT, nn.Tanh()).to(device)
    critic = mlp(OBS + ACT, 1).to(device)
    opt_actor = torch.optim.SGD(actor.parameters(), lr=1e-2)
    opt_critic = torch.optim.SGD(critic.parameters(), lr=1e-2)
    terrain, replay = Terrain(device), Replay(device)
    returns = []

    for step in range(STEPS):
        noise = 0.2 * torch.randn(ROBOTS, ACT, generator=gen)
        push = 0.05 * torch.randn(ROBOTS, OBS, generator=gen)
        with torch.no_grad():
            obs = terrain.state
            act = (actor(obs) + noise.to(device)).clamp(-1.0, 1.0)
            nxt, rew = terrain.step(act, push.to(device))
            replay.add(obs, act, rew, nxt)
        torch_xla.sync()

        o, a, r, n = replay.sample(4, gen)
        with torch.no_grad():
            target = r + DISCOUNT * critic(torch.cat([n, actor(n)], 1)).squeeze(1)
        q_loss = F.mse_loss(critic(torch.cat([o, a], 1)).squeeze(1), target)
        opt_critic.zero_grad()
        q_loss.backward()
        opt_critic.step()

        pi_loss = -critic(torch.cat([o, actor(o)], 1)).mean()
        opt_actor.zero_grad()
        pi_loss.backward()
        opt_actor.step()
        torch_xla.sync()

        returns.append(rew.mean())
        progress = torch.stack(returns).std(unbiased=False) + torch.stack(returns).mean()
        torch_xla.sync()
        if step % 6 == 5:
            print(f"step {step + 1:3d} critic {q_loss.item():.4f} progress {progress.item():+.4f}")


if __name__ == "__main__":
    main()
