import random
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Corridor:
    """Walk left or right on a line; the episode ends at either door."""

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.pos, self.t = self.rng.choice([-1, 0, 1]), 0
        return [self.pos / 3, 0.0]

    def step(self, action):
        self.pos += 1 if action else -1
        self.t += 1
        done = abs(self.pos) >= 3 or self.t >= 25
        return [self.pos / 3, self.t / 25], float(self.pos >= 3), done


policy_cpu = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))


def rollout(env, rng):
    obs, acts, rews = [], [], []
    o, done = env.reset(), False
    while not done:
        with torch.no_grad():
            p = F.softmax(policy_cpu(torch.tensor(o)), -1)[1].item()
        a = int(rng.random() < p)
        obs.append(o)
        acts.append(a)
        o, r, done = env.step(a)
        rews.append(r)
    ret, returns = 0.0, []
    for r in reversed(rews):
        ret = r + 0.97 * ret
        returns.insert(0, ret)
    return torch.tensor(obs), torch.tensor(acts), torch.tensor(returns)


def update(policy, opt, obs, acts, returns):
    logp = F.log_softmax(policy(obs), -1)
    picked = logp.gather(1, acts[:, None]).squeeze(1)
    loss = -(picked * returns).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


if __name__ == "__main__":
    torch.manual_seed(0)
    rng = random.Random(7)
    device = xm.xla_device()
    policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    env = Corridor(rng)
    for episode in range(12):
        policy_cpu.load_state_dict({k: v.cpu() for k, v in policy.state_dict().items()})
        obs, acts, returns = rollout(env, rng)
        loss = update(policy, opt, obs.to(device), acts.to(device), returns.to(device))
        xm.mark_step()
        print(episode, len(acts), round(loss.item(), 4))
