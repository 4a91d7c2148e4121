"""Advantage-weighted regression on logged irrigation-valve data (offline)."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID = 11, 3, 24
TEMP, W_MAX = 0.7, 20.0


def body(n_in, n_out):
    return nn.Sequential(
        nn.Linear(n_in, HID), nn.LayerNorm(HID), nn.SiLU(),
        nn.Linear(HID, HID), nn.Tanh(),
        nn.Linear(HID, n_out),
    )


class ValvePolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = body(OBS, ACT)
        self.log_std = nn.Parameter(torch.full((ACT,), -0.5))

    def log_prob(self, obs, act):
        mu = torch.tanh(self.net(obs))
        log_std = self.log_std.clamp(-4.0, 1.0)
        z = (act - mu) * torch.exp(-log_std)
        return (-0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = ValvePolicy()
        self.value = body(OBS, 1)

    def losses(self, batch):
        v = self.value(batch["obs"]).squeeze(-1)
        ret = batch["ret"]
        value_loss = F.smooth_l1_loss(v, ret)

        adv = (ret - v).detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        w = torch.exp(adv / TEMP).clamp(max=W_MAX)
        logp = self.policy.log_prob(batch["obs"], batch["act"])
        policy_loss = -(w * logp).mean()
        return policy_loss, value_loss, w


def make_batch(gen, n=32):
    obs = torch.randn(n, OBS, generator=gen)
    return {
        "obs": obs,
        "act": torch.tanh(torch.randn(n, ACT, generator=gen)),
        "ret": obs[:, :4].sum(-1) + 0.3 * torch.randn(n, generator=gen),
    }


def live(agent, opt, extra):
    out = []
    for p in agent.parameters():
        out.append(p)
        st = opt.state.get(p, {})
        out += [st[k] for k in sorted(st) if torch.is_tensor(st[k]) and st[k].device.type == "xla"]
    return out + list(extra)


def main():
    torch.manual_seed(3)
    dev = torch_xla.device()
    gen = torch.Generator().manual_seed(11)
    agent = Agent().to(dev)
    opt = torch.optim.Adam(agent.parameters(), lr=1e-3, betas=(0.9, 0.98))
    torch_xla.sync()
    for it in range(4):
        batch = {k: v.to(dev) for k, v in make_batch(gen).items()}
        policy_loss, value_loss, w = agent.losses(batch)
        loss = policy_loss + 0.5 * value_loss
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        ess = w.sum() ** 2 / (w * w).sum()
        if it == 2 and len(sys.argv) > 1:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                live(agent, opt, [policy_loss, value_loss, loss, w, gnorm, ess]))
            with open(sys.argv[1], "w") as fh:
                fh.write(text)
        torch_xla.sync()
        print(it, policy_loss.item(), value_loss.item(), ess.item())


if __name__ == "__main__":
    main()
