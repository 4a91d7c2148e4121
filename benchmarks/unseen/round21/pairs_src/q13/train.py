import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Policy(nn.Module):
    def __init__(self, obs=6, hidden=16, actions=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs, hidden), nn.Tanh(),
            nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)

    def forward(self, obs):
        return F.log_softmax(self.pi(self.body(obs)), dim=-1)


class ActionStats:
    """Discounted counts of the actions taken so far."""

    def __init__(self, n_actions, device, decay=0.9):
        self.decay = decay
        self.ids = torch.arange(n_actions).to(device)
        self.counts = torch.ones(n_actions, dtype=torch.long).to(device)

    def update(self, actions):
        new = (actions[:, None] == self.ids).sum(0)
        self.counts = self.counts * self.decay + new

    def weights(self):
        freq = self.counts / self.counts.sum()
        return 1.0 / (4.0 * freq + 0.1)


def rollout(n, horizon=5):
    obs = torch.randn(n, 6)
    actions = torch.randint(0, 4, (n,))
    reward = (actions == obs[:, :4].argmax(1)).float()
    returns = reward * sum(0.99 ** k for k in range(horizon))
    return obs, actions, returns


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    policy = Policy().to(device)
    stats = ActionStats(4, device)
    optim = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(6):
        obs, actions, returns = (t.to(device) for t in rollout(16))
        stats.update(actions)
        weight = stats.weights()[actions]
        logp = policy(obs).gather(1, actions[:, None])[:, 0]
        loss = -(logp * returns * weight).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
