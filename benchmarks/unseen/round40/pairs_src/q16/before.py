"""Deterministic actor-critic for a building's heating plant, one update."""
import copy
import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, BATCH, GAMMA, POLYAK = 7, 2, 12, 8, 0.98, 0.01


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS, HID)
        self.fc2 = nn.Linear(HID, ACT)

    def forward(self, obs):
        return torch.tanh(self.fc2(F.relu(self.fc1(obs))))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, HID)
        self.fc2 = nn.Linear(HID, 1)

    def forward(self, obs, act):
        return self.fc2(F.relu(self.fc1(torch.cat([obs, act], 1)))).squeeze(-1)


class Agent:
    def __init__(self, dev):
        self.actor = Actor().to(dev)
        self.critic = Critic().to(dev)
        self.actor_t = copy.deepcopy(self.actor)
        self.critic_t = copy.deepcopy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=2e-3)

    @torch.no_grad()
    def soft_update(self):
        for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
            for p, pt in zip(net.parameters(), tgt.parameters()):
                pt.mul_(1.0 - POLYAK).add_(p, alpha=POLYAK)

    def critic_loss(self, obs, act, rew, nxt, done, noise):
        with torch.no_grad():
            a2 = (self.actor_t(nxt) + noise.clamp(-0.3, 0.3)).clamp(-1.0, 1.0)
            y = rew + GAMMA * (1.0 - done) * self.critic_t(nxt, a2)
        return F.mse_loss(self.critic(obs, act), y)

    def update(self, obs, act, rew, nxt, done, noise):
        lc = self.critic_loss(obs, act, rew, nxt, done, noise)
        self.opt_c.zero_grad()
        lc.backward()
        self.opt_c.step()

        la = -self.critic(obs, self.actor(obs)).mean()
        self.opt_a.zero_grad()
        la.backward()
        self.opt_a.step()

        self.soft_update()
        return lc, la

    def live(self):
        out = []
        for net in (self.actor, self.critic, self.actor_t, self.critic_t):
            out += [p.data for p in net.parameters()]
            out += [p.grad for p in net.parameters() if p.grad is not None]
        for opt in (self.opt_a, self.opt_c):
            for st in opt.state.values():
                out += [v for v in st.values() if torch.is_tensor(v) and v.device.type == "xla"]
        return out


def batch(seed):
    g = torch.Generator().manual_seed(seed)
    return (
        torch.randn(BATCH, OBS, generator=g),
        torch.rand(BATCH, ACT, generator=g) * 2 - 1,
        torch.randn(BATCH, generator=g),
        torch.randn(BATCH, OBS, generator=g),
        (torch.rand(BATCH, generator=g) < 0.1).float(),
        torch.randn(BATCH, ACT, generator=g) * 0.2,
    )


def main(path):
    torch.manual_seed(8)
    agent = Agent(torch_xla.device())
    for it in range(4):
        data = [v.to(torch_xla.device()) for v in batch(it)]
        torch_xla.sync()
        lc, la = agent.update(*data)
        if it == 2:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([lc, la] + agent.live()))
        torch_xla.sync()
        print(it, lc.item(), la.item())


if __name__ == "__main__":
    main(sys.argv[1])
