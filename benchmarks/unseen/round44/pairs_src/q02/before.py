"""Soft actor-critic update for a small chemical-reactor control task."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID = 7, 2, 16
GAMMA, TAU = 0.97, 0.01


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(OBS, HID)
        self.mu = nn.Linear(HID, ACT)
        self.log_std = nn.Linear(HID, ACT)

    def forward(self, obs, eps):
        h = torch.relu(self.trunk(obs))
        mu = self.mu(h)
        log_std = torch.tanh(self.log_std(h)) * 3.5 - 1.5
        pre = mu + log_std.exp() * eps
        logp = -0.5 * eps.pow(2) - log_std - 0.9189385
        logp = logp - 2.0 * (0.6931472 - pre - F.softplus(-2.0 * pre))
        return torch.tanh(pre), logp.sum(-1, keepdim=True)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, HID)
        self.fc2 = nn.Linear(HID, 1)

    def forward(self, obs, act):
        return self.fc2(F.elu(self.fc1(torch.cat([obs, act], dim=-1))))


class Agent:
    def __init__(self, dev):
        self.actor = Actor().to(dev)
        self.q = nn.ModuleList([Critic(), Critic()]).to(dev)
        self.q_targ = nn.ModuleList([Critic(), Critic()]).to(dev)
        self.q_targ.load_state_dict(self.q.state_dict())
        self.q_targ.requires_grad_(False)
        self.log_alpha = torch.zeros(1, device=dev, requires_grad=True)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.q_opt = torch.optim.Adam(self.q.parameters(), lr=1e-3)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=3e-4)

    def critic_step(self, obs, act, rew, done, obs2, eps2):
        with torch.no_grad():
            act2, logp2 = self.actor(obs2, eps2)
            q_next = torch.min(self.q_targ[0](obs2, act2), self.q_targ[1](obs2, act2))
            soft_v = q_next - self.log_alpha.exp() * logp2
            backup = rew + GAMMA * (1.0 - done) * soft_v
        loss = sum(F.mse_loss(q(obs, act), backup) for q in self.q)
        self.q_opt.zero_grad()
        loss.backward()
        self.q_opt.step()
        return loss

    def actor_step(self, obs, eps):
        act, logp = self.actor(obs, eps)
        q_pi = torch.min(self.q[0](obs, act), self.q[1](obs, act))
        loss = (self.log_alpha.exp().detach() * logp - q_pi).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()
        return loss, logp.detach()

    def alpha_step(self, logp):
        loss = -(self.log_alpha * (logp - ACT)).mean()
        self.alpha_opt.zero_grad()
        loss.backward()
        self.alpha_opt.step()
        return loss

    @torch.no_grad()
    def polyak(self):
        for p, t in zip(self.q.parameters(), self.q_targ.parameters()):
            t.lerp_(p, TAU)

    def update(self, obs, act, rew, done, obs2, eps, eps2):
        q_loss = self.critic_step(obs, act, rew, done, obs2, eps2)
        pi_loss, logp = self.actor_step(obs, eps)
        a_loss = self.alpha_step(logp)
        self.polyak()
        return q_loss, pi_loss, a_loss

    def live(self):
        out = []
        for mod, opt in ((self.actor, self.actor_opt), (self.q, self.q_opt)):
            for p in mod.parameters():
                st = opt.state[p]
                out += [p, st["exp_avg"], st["exp_avg_sq"]]
        st = self.alpha_opt.state[self.log_alpha]
        out += [self.log_alpha, st["exp_avg"], st["exp_avg_sq"]]
        out += list(self.q_targ.parameters())
        return out

    def drop_grads(self):
        for o in (self.actor_opt, self.q_opt, self.alpha_opt):
            o.zero_grad(set_to_none=True)


def replay_batch(gen, n=12):
    return [
        torch.randn(n, OBS, generator=gen),
        torch.rand(n, ACT, generator=gen) * 2 - 1,
        torch.randn(n, 1, generator=gen),
        (torch.rand(n, 1, generator=gen) < 0.1).float(),
        torch.randn(n, OBS, generator=gen),
        torch.randn(n, ACT, generator=gen),
        torch.randn(n, ACT, generator=gen),
    ]


def main(out):
    dev = torch_xla.device()
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(17)
    agent = Agent(dev)
    torch_xla.sync()
    for step in range(3):
        batch = [t.to(dev) for t in replay_batch(gen)]
        losses = agent.update(*batch)
        agent.drop_grads()
        if step == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(list(losses) + agent.live()))
        torch_xla.sync()
        print(step, [l.item() for l in losses])


if __name__ == "__main__":
    main(sys.argv[1])
