"""Advantage actor-critic for a ring of traffic lights (shared trunk).

usage: python after.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ENVS, HORIZON, LANES, PHASES = 4, 5, 12, 4
GAMMA, LAM = 0.97, 0.9
DUMP_STEP = 2


class Trunk(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.queue = nn.Linear(LANES, hid)
        self.phase = nn.Embedding(PHASES, hid)
        self.norm = nn.LayerNorm(hid)
        self.mix = nn.Linear(hid, hid)

    def forward(self, queues, phase):
        h = self.queue(torch.log1p(queues)) + self.phase(phase)
        h = self.norm(h)
        return F.elu(h + self.mix(F.elu(h)))


class ActorCritic(nn.Module):
    def __init__(self, hid=16):
        super().__init__()
        self.trunk = Trunk(hid)
        self.policy = nn.Linear(hid, PHASES)
        self.value = nn.Linear(hid, 1)

    def forward(self, queues, phase):
        h = self.trunk(queues, phase)
        return self.policy(h), self.value(h).squeeze(-1)


def gae(rewards, values, last_value, alive):
    """Generalised advantage estimate; time is dimension 0."""
    adv = []
    running = torch.zeros_like(last_value)
    nxt = last_value
    for t in reversed(range(HORIZON)):
        delta = rewards[t] + GAMMA * alive[t] * nxt - values[t]
        running = delta + GAMMA * LAM * alive[t] * running
        adv.append(running)
        nxt = values[t]
    adv.reverse()
    return torch.stack(adv)


def a2c_loss(model, roll):
    logits, values = model(roll["queues"], roll["phase"])
    with torch.no_grad():
        _, last_value = model(roll["last_queues"], roll["last_phase"])
    adv = gae(roll["rewards"], values, last_value, roll["alive"])
    returns = (adv + values).detach()

    logp = F.log_softmax(logits, dim=-1)
    taken = logp.gather(-1, roll["actions"].unsqueeze(-1)).squeeze(-1)
    scaled = (adv - adv.mean()) / (adv.std() + 1e-5)

    pg_loss = -(scaled * taken).mean()
    v_loss = F.smooth_l1_loss(values, returns)
    entropy = -(logp.exp() * logp).sum(-1).mean()
    return pg_loss + 0.5 * v_loss - 0.013 * entropy, pg_loss.detach(), v_loss.detach(), entropy.detach()


def rollout(gen, device):
    n = (HORIZON, ENVS)
    roll = {
        "queues": torch.randint(0, 20, n + (LANES,), generator=gen).float(),
        "phase": torch.randint(0, PHASES, n, generator=gen),
        "actions": torch.randint(0, PHASES, n, generator=gen),
        "rewards": -torch.rand(n, generator=gen),
        "alive": (torch.rand(n, generator=gen) > 0.1).float(),
        "last_queues": torch.randint(0, 20, (ENVS, LANES), generator=gen).float(),
        "last_phase": torch.randint(0, PHASES, (ENVS,), generator=gen),
    }
    return {k: v.to(device) for k, v in roll.items()}


def live(model, opt, extra):
    out = list(extra)
    for p in model.parameters():
        out += [p, p.grad, opt.state[p]["square_avg"]]
    return out


def main(path):
    device = torch_xla.device()
    torch.manual_seed(11)
    model = ActorCritic().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    gen = torch.Generator().manual_seed(3)
    torch_xla.sync()
    for step in range(4):
        roll = rollout(gen, device)
        opt.zero_grad(set_to_none=True)
        loss, pg, vl, ent = a2c_loss(model, roll)
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 0.6)
        opt.step()
        if step == DUMP_STEP:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(
                    live(model, opt, [loss, pg, vl, ent, gnorm])))
        torch_xla.sync()
        print(step, loss.item(), pg.item(), vl.item(), ent.item())


if __name__ == "__main__":
    main(sys.argv[1])
