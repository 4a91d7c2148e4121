"""Actor-critic for battery dispatch: two discrete heads, hourly state of a microgrid.

usage: before.py OUT      writes the pending graph of the third update
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STATE, CHARGE, IMPORT = 11, 5, 3
T, B = 4, 6
GAMMA, LAM = 0.97, 0.9


class DispatchNet(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(STATE, width), nn.Tanh(), nn.LayerNorm(width),
            nn.Linear(width, width), nn.Tanh(),
        )
        self.charge = nn.Linear(width, CHARGE)
        self.grid = nn.Linear(width, IMPORT)
        self.value = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, obs):
        h = self.body(obs)
        return self.charge(h), self.grid(h), self.value(h).squeeze(-1)


def gae(rewards, values, alive, last_value):
    """Generalised advantage estimates, values of shape [T, B]."""
    out = []
    running = torch.zeros_like(last_value)
    following = last_value
    for t in reversed(range(T)):
        delta = rewards[t] + GAMMA * following * alive[t] - values[t]
        running = delta + GAMMA * LAM * alive[t] * running
        out.append(running)
        following = values[t]
    return torch.stack(out[::-1])


def picked_logp(logits, action):
    logp = F.log_softmax(logits, dim=-1)
    chosen = logp.gather(-1, action.unsqueeze(-1)).squeeze(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    return chosen, entropy


def update(net, opt, obs, next_obs, act_c, act_g, rewards, alive):
    charge, grid, values = net(obs)
    with torch.no_grad():
        last_value = net(next_obs)[2]
        adv = gae(rewards, values, alive, last_value)
        returns = adv + values
    logp_c, ent_c = picked_logp(charge, act_c)
    logp_g, ent_g = picked_logp(grid, act_g)
    weight = (adv - adv.mean()) / (adv.std() + 1e-6)
    policy_loss = -((logp_c + logp_g) * weight).mean()
    value_loss = F.smooth_l1_loss(values, returns)
    entropy = (ent_c + ent_g).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    opt.zero_grad(set_to_none=True)
    return [x.detach() for x in (loss, policy_loss, value_loss, entropy)]


def main(out):
    torch.manual_seed(11)
    device = xm.xla_device()
    net = DispatchNet().to(device)
    params = list(net.parameters())
    opt = torch.optim.RMSprop(params, lr=7e-4, alpha=0.99, eps=1e-5)
    for step in range(3):
        obs = torch.randn(T, B, STATE).to(device)
        next_obs = torch.randn(B, STATE).to(device)
        act_c = torch.randint(CHARGE, (T, B)).to(device)
        act_g = torch.randint(IMPORT, (T, B)).to(device)
        rewards = torch.randn(T, B).to(device)
        alive = (torch.rand(T, B) > 0.1).float().to(device)
        torch_xla.sync()
        stats = update(net, opt, obs, next_obs, act_c, act_g, rewards, alive)
        if step == 2:
            live = stats + [p.detach() for p in params]
            live += [opt.state[p]["square_avg"] for p in params]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, [round(s.item(), 5) for s in stats])


if __name__ == "__main__":
    main(sys.argv[1])
