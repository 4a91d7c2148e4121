import collections
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

GAMMA, N_STEP, BATCH, STEPS = 0.97, 3, 16, 6
OBS, ACT = 6, 4

Transition = collections.namedtuple("Transition", "obs act ret next_obs done")


class Dueling(nn.Module):
    def __init__(self, obs, act, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, act)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=-1, keepdim=True)


class Replay:
    def __init__(self, size, seed):
        rnd = random.Random(seed)
        self.rnd = rnd
        self.buf = collections.deque(maxlen=size)
        for _ in range(size):
            o = [rnd.gauss(0, 1) for _ in range(OBS)]
            a = rnd.randrange(ACT)
            o2 = [v * 0.9 + 0.1 * a + rnd.gauss(0, 0.05) for v in o]
            ret = sum(GAMMA ** i * rnd.random() for i in range(N_STEP))
            self.buf.append(Transition(o, a, ret, o2, float(rnd.random() < 0.1)))

    def sample(self, n, device):
        t = Transition(*zip(*self.rnd.sample(list(self.buf), n)))
        return Transition(
            torch.tensor(t.obs, device=device),
            torch.tensor(t.act, device=device),
            torch.tensor(t.ret, device=device),
            torch.tensor(t.next_obs, device=device),
            torch.tensor(t.done, device=device),
        )


def td_loss(net, batch):
    q = net(batch.obs).gather(1, batch.act.unsqueeze(1)).squeeze(1)
    q_next = net(batch.next_obs).max(dim=1).values
    target = batch.ret + GAMMA ** N_STEP * (1.0 - batch.done) * q_next
    loss = F.smooth_l1_loss(q, target)
    return loss, (target - q).detach().abs().mean()


def main():
    torch.manual_seed(11)
    device = xm.xla_device()
    net = Dueling(OBS, ACT).to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=5e-4, alpha=0.95, eps=1e-5, centered=True)
    replay = Replay(200, 5)
    for step in range(STEPS):
        batch = replay.sample(BATCH, device)
        opt.zero_grad()
        loss, td = td_loss(net, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        xm.mark_step()
        print(f"{step} loss={loss.item():.5f} |td|={td.item():.5f}")


if __name__ == "__main__":
    main()
