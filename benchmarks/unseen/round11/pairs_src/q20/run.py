"""Advantage actor-critic on a synthetic control task."""
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class ActorCritic(nn.Module):
    def __init__(self, obs=6, act=3, hid=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hid), nn.Tanh(), nn.Linear(hid, hid), nn.Tanh())
        self.pi = nn.Linear(hid, act)
        self.v = nn.Linear(hid, 1)

    def forward(self, o):
        h = self.trunk(o)
        return torch.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)


class Env:
    def __init__(self, n=8):
        self.state = torch.randn(n, 6)

    def rollout(self, horizon):
        obs, act, rew = [], [], []
        for _ in range(horizon):
            a = torch.randint(0, 3, (self.state.size(0),))
            obs.append(self.state)
            act.append(a)
            rew.append(-self.state.pow(2).mean(1) + 0.1 * a.float())
            self.state = 0.9 * self.state + 0.1 * torch.randn_like(self.state)
        return torch.stack(obs), torch.stack(act), torch.stack(rew)


def returns(rewards, gamma=0.95):
    out, run = [], torch.zeros_like(rewards[0])
    for r in reversed(rewards):
        run = r + gamma * run
        out.append(run)
    return torch.stack(out[::-1])


def update(net, opt, device, batch, ent_coef=0.01):
    obs, act, rew = (t.to(device) for t in batch)
    ret = returns(rew)
    logp, value = net(obs)
    adv = ret - value.detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    picked = logp.gather(-1, act.unsqueeze(-1)).squeeze(-1)
    policy = -(picked * adv).mean()
    critic = (ret - value).pow(2).mean()
    entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = policy + 0.5 * critic - ent_coef * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    xm.mark_step()
    return loss


def main():
    torch.manual_seed(9)
    device = xm.xla_device()
    net = ActorCritic().to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, alpha=0.99)
    env = Env()
    for it in range(8):
        loss = update(net, opt, device, env.rollout(5))
        if it % 4 == 0:
            print("iter", it, "loss", loss.item())


main()
