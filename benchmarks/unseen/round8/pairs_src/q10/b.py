import torch, torch.nn as nn, torch.nn.functional as F
import xdump

T, N, OBS, ACT = 8, 6, 10, 4
GAMMA, LAM, CLIP = 0.99, 0.95, 0.2


class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, ACT), nn.Linear(32, 1)

    def forward(self, o):
        h = self.body(o)
        return self.pi(h), self.v(h).squeeze(-1)


def gae(rewards, values, dones, next_value, next_done):
    adv, last = [None] * T, torch.zeros_like(next_value)
    for t in reversed(range(T)):
        if t == T - 1:
            nonterm, nextv = 1.0 - next_done, next_value
        else:
            nonterm, nextv = 1.0 - dones[t], values[t + 1]
        delta = rewards[t] + GAMMA * nextv * nonterm - values[t]
        last = delta + GAMMA * LAM * nonterm * last
        adv[t] = last
    return torch.stack(adv)


xdump.seed(10)
dev = xdump.device()
net = AC().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=2.5e-4, eps=1e-5)
roll = {
    "obs": torch.randn(T, N, OBS), "act": torch.randint(0, ACT, (T, N)), "rew": torch.randn(T, N),
    "val": torch.randn(T, N) * 0.1, "done": (torch.rand(T, N) < 0.2).float(), "logp": -torch.rand(T, N) - 1,
    "nobs": torch.randn(N, OBS), "ndone": (torch.rand(N) < 0.2).float(),
}
roll = {k: v.to(dev) for k, v in roll.items()}
xdump.sync()


def step(r):
    with torch.no_grad():
        _, nv = net(r["nobs"])
        adv = gae(r["rew"], r["val"], r["done"], nv, r["ndone"])
        ret = adv + r["val"]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    opt.zero_grad()
    logits, v = net(r["obs"])
    lp = logits.log_softmax(-1)
    logp = lp.gather(-1, r["act"].unsqueeze(-1)).squeeze(-1)
    ratio = (logp - r["logp"]).exp()
    pg = torch.max(-adv * ratio, -adv * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
    vclip = r["val"] + (v - r["val"]).clamp(-CLIP, CLIP)
    vl = 0.5 * torch.max((v - ret) ** 2, (vclip - ret) ** 2).mean()
    ent = -(lp.exp() * lp).sum(-1).mean()
    loss = pg - 0.01 * ent + 0.5 * vl
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    return loss, pg.detach(), vl.detach(), ent.detach()


step(roll)
xdump.sync()
loss, pg, vl, ent = step(roll)
named = list(net.named_parameters())
live = {"loss": loss, "pg": pg, "vl": vl, "ent": ent}
live.update(named)
live.update(xdump.state_of(opt, named))
xdump.dump(live)
