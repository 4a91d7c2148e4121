import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class ActorCritic(nn.Module):
    def __init__(self, obs=5, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 24), nn.Tanh())
        self.pi, self.v = nn.Linear(24, actions), nn.Linear(24, 1)

    def forward(self, o):
        h = self.body(o)
        return torch.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)


def ppo_loss(net, b, clip=0.2, vf=0.5, ent=0.01):
    logp_all, value = net(b["obs"])
    logp = logp_all.gather(1, b["act"][:, None]).squeeze(1)
    ratio = (logp - b["logp"]).exp()
    adv = (b["adv"] - b["adv"].mean()) / (b["adv"].std() + 1e-8)
    surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
    kl = ((ratio - 1) - (logp - b["logp"])).mean()
    return -surrogate.mean() + vf * (value - b["ret"]).pow(2).mean() - ent * entropy, kl.detach()


def collect(n=32):
    return {"obs": torch.randn(n, 5), "act": torch.randint(0, 3, (n,)),
            "logp": torch.full((n,), -1.0986), "adv": torch.randn(n), "ret": torch.randn(n)}


def main():
    torch.manual_seed(3)
    device = xm.xla_device()
    net = ActorCritic().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-5)
    updates = 0
    for iteration in range(4):
        data = collect()
        for epoch in range(4):
            order = torch.randperm(32)
            batch = {k: v[order[:16]].to(device) for k, v in data.items()}
            loss, kl = ppo_loss(net, batch)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            xm.mark_step()
            updates += 1
            if kl.item() > 0.03:
                print(f"iteration {iteration}: stop after epoch {epoch}, kl {kl.item():.4f}")
                break
    print(updates, "updates")


main()
