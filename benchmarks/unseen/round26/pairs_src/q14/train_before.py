"""a2c on a batch of tiny random walks; recurrent policy, n-step returns"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Hyper:
    envs = 8
    horizon = 3
    obs = 5
    hidden = 16
    actions = 3
    gamma = 0.97
    value_coef = 0.5
    entropy_coef = 0.01
    lr = 7e-4


class RecurrentActorCritic(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.body = nn.Linear(hp.obs, hp.hidden)
        self.cell = nn.GRUCell(hp.hidden, hp.hidden)
        self.pi = nn.Linear(hp.hidden, hp.actions)
        self.v = nn.Linear(hp.hidden, 1)

    def forward(self, obs, h, done):
        h = h * (1.0 - done).unsqueeze(-1)
        h = self.cell(torch.tanh(self.body(obs)), h)
        return self.pi(h), self.v(h).squeeze(-1), h


class LineWorld:
    """Walk on a line; reward for being near a goal. Runs on the host."""

    def __init__(self, hp, seed):
        self.hp = hp
        self.g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(hp.envs, hp.obs, generator=self.g)

    def rollout(self):
        hp, out = self.hp, {"obs": [], "act": [], "rew": [], "done": []}
        for _ in range(hp.horizon):
            a = torch.randint(0, hp.actions, (hp.envs,), generator=self.g)
            out["obs"].append(self.x.clone())
            out["act"].append(a)
            self.x[:, 0] += 0.3 * (a.float() - 1)
            self.x += 0.05 * torch.randn(self.x.shape, generator=self.g)
            out["rew"].append(1.0 - self.x[:, 0].abs())
            out["done"].append((torch.rand(hp.envs, generator=self.g) < 0.1).float())
        batch = {k: torch.stack(v) for k, v in out.items()}
        batch["last_obs"] = self.x.clone()
        return batch


def n_step_returns(rew, done, bootstrap, gamma):
    ret, acc = [], bootstrap
    for t in reversed(range(rew.shape[0])):
        acc = rew[t] + gamma * (1.0 - done[t]) * acc
        ret.append(acc)
    return torch.stack(ret[::-1])


def a2c_loss(model, batch, h, hp):
    logits, values = [], []
    done = torch.zeros_like(batch["done"][0])
    for t in range(hp.horizon):
        lg, v, h = model(batch["obs"][t], h, done)
        logits.append(lg)
        values.append(v)
        done = batch["done"][t]
    logits, values = torch.stack(logits), torch.stack(values)
    with torch.no_grad():
        _, boot, _ = model(batch["last_obs"], h, done)
        returns = n_step_returns(batch["rew"], batch["done"], boot, hp.gamma)

    logp = F.log_softmax(logits, dim=-1)
    logp_a = logp.gather(-1, batch["act"].unsqueeze(-1)).squeeze(-1)
    adv = returns - values
    pg = -(logp_a * adv.detach()).mean()
    vf = adv.pow(2).mean()
    ent = -(logp.exp() * logp).sum(-1).mean()
    return pg + hp.value_coef * vf - hp.entropy_coef * ent, h.detach()


def main(updates=5):
    hp = Hyper()
    torch.manual_seed(1)
    dev = torch_xla.device()
    model = RecurrentActorCritic(hp).to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=hp.lr, alpha=0.99, eps=1e-5)
    env = LineWorld(hp, seed=2)
    h = torch.zeros(hp.envs, hp.hidden, device=dev)
    xm.mark_step()
    for u in range(updates):
        batch = {k: v.to(dev) for k, v in env.rollout().items()}
        opt.zero_grad()
        loss, h = a2c_loss(model, batch, h, hp)
        loss.backward()
        opt.step()
        xm.mark_step()
        print("update", u, "loss", loss.item())


if __name__ == "__main__":
    main()
