"""Soft actor-critic for a small valve-control plant (torch_xla)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, BATCH = 11, 3, 24, 32
GAMMA, TAU = 0.985, 0.01


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(OBS, HID), nn.SiLU())
        self.mu = nn.Linear(HID, ACT)
        self.log_std = nn.Linear(HID, ACT)

    def forward(self, obs):
        h = self.trunk(obs)
        mu = self.mu(h)
        log_std = self.log_std(h).clamp(-5.0, 2.0)
        noise = torch.randn_like(mu)
        pre = mu + log_std.exp() * noise
        logp = -0.5 * noise.pow(2) - log_std - 0.918938533
        act = torch.tanh(pre)
        logp = logp - torch.log(1.0 - act.pow(2) + 1e-6)
        return act, logp.sum(-1, keepdim=True)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, HID)
        self.out = nn.Linear(HID, 1)

    def forward(self, obs, act):
        h = F.silu(self.fc1(torch.cat([obs, act], dim=-1)))
        return self.out(h)


class Agent:
    def __init__(self, device):
        self.actor = Actor().to(device)
        self.q1, self.q2 = Critic().to(device), Critic().to(device)
        self.t1, self.t2 = Critic().to(device), Critic().to(device)
        self.t1.load_state_dict(self.q1.state_dict())
        self.t2.load_state_dict(self.q2.state_dict())
        for p in list(self.t1.parameters()) + list(self.t2.parameters()):
            p.requires_grad_(False)
        self.log_alpha = torch.tensor([-1.5], device=device, requires_grad=True)
        self.opt_a = torch.optim.SGD(self.actor.parameters(), lr=2e-3, momentum=0.9)
        self.opt_q = torch.optim.SGD(
            list(self.q1.parameters()) + list(self.q2.parameters()), lr=5e-3, momentum=0.9)
        self.opt_t = torch.optim.SGD([self.log_alpha], lr=1e-3)

    def zero_grad(self):
        self.opt_a.zero_grad()
        self.opt_q.zero_grad()
        self.opt_t.zero_grad()

    def backup(self, nxt, rew, done):
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            act, logp = self.actor(nxt)
            q = torch.min(self.t1(nxt, act), self.t2(nxt, act))
            return rew + GAMMA * (1.0 - done) * (q - alpha * logp)

    def critic_loss(self, obs, act, rew, nxt, done):
        y = self.backup(nxt, rew, done)
        return F.smooth_l1_loss(self.q1(obs, act), y) + F.smooth_l1_loss(self.q2(obs, act), y)

    def policy_loss(self, obs):
        act, logp = self.actor(obs)
        for p in self.q1.parameters():
            p.requires_grad_(False)
        for p in self.q2.parameters():
            p.requires_grad_(False)
        q = torch.min(self.q1(obs, act), self.q2(obs, act))
        loss = (self.log_alpha.detach().exp() * logp - q).mean()
        temp = -(self.log_alpha.exp() * (logp.detach() - ACT)).mean()
        return loss, temp

    def unfreeze(self):
        for p in list(self.q1.parameters()) + list(self.q2.parameters()):
            p.requires_grad_(True)

    def update(self, batch):
        obs, act, rew, nxt, done = batch
        self.zero_grad()
        lq = self.critic_loss(obs, act, rew, nxt, done)
        lq.backward()
        self.opt_q.step()
        lp, lt = self.policy_loss(obs)
        lp.backward()
        lt.backward()
        self.unfreeze()
        self.opt_a.step()
        self.opt_t.step()
        with torch.no_grad():
            for src, dst in ((self.q1, self.t1), (self.q2, self.t2)):
                for ps, pd in zip(src.parameters(), dst.parameters()):
                    pd.lerp_(ps, TAU)
        return lq.detach(), lp.detach(), lt.detach()

    def live(self):
        out = []
        for m in (self.actor, self.q1, self.q2, self.t1, self.t2):
            out += list(m.parameters())
        out.append(self.log_alpha)
        out += [p.grad for p in out if p.grad is not None]
        for o in (self.opt_a, self.opt_q, self.opt_t):
            for st in o.state.values():
                out += [v for v in st.values() if torch.is_tensor(v)]
        return out


def dump(path, tensors):
    xs = [t for t in tensors if t.device.type == "xla"]
    xs = [t for t in xs
          if "xla::device_data" not in
          [ln for ln in torch_xla._XLAC._get_xla_tensors_text([t]).splitlines() if "ROOT" in ln][0]]
    with open(path, "w") as f:
        f.write(torch_xla._XLAC._get_xla_tensors_hlo(xs))


def batches(device):
    g = torch.Generator().manual_seed(11)
    while True:
        yield [x.to(device) for x in (
            torch.randn(BATCH, OBS, generator=g),
            torch.rand(BATCH, ACT, generator=g) * 2 - 1,
            torch.randn(BATCH, 1, generator=g),
            torch.randn(BATCH, OBS, generator=g),
            (torch.rand(BATCH, 1, generator=g) < 0.1).float())]


def main(path):
    torch.manual_seed(3)
    device = torch_xla.device()
    agent = Agent(device)
    it = batches(device)
    torch_xla.sync()
    for step in range(3):
        losses = agent.update(next(it))
        if step == 2:
            dump(path, agent.live() + list(losses))
        torch_xla.sync()
        print(step, [round(float(x), 5) for x in losses])


if __name__ == "__main__":
    main(sys.argv[1])
