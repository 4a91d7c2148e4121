"""Actor-critic for a point-mass plant: learned dynamics rollouts, lambda returns."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STATE, ACTION, HORIZON, BATCH = 4, 2, 4, 8
GAMMA, LAMBDA = 0.97, 0.9


def mlp(inp, out, width=16):
    return nn.Sequential(nn.Linear(inp, width), nn.ELU(), nn.Linear(width, out))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = mlp(STATE, ACTION)
        self.value = mlp(STATE, 1)
        self.log_std = nn.Parameter(torch.full((ACTION,), -0.7))

    def log_prob(self, state, action):
        z = (action - torch.tanh(self.policy(state))) / self.log_std.exp()
        return (-0.5 * z ** 2 - self.log_std - 0.9189385).sum(-1)

    def entropy(self):
        return (self.log_std + 1.4189385).sum()


def lambda_returns(rewards, alive, values, gamma=GAMMA, lam=LAMBDA):
    carry, out = values[-1], []
    for t in reversed(range(rewards.shape[0])):
        carry = rewards[t] + gamma * alive[t] * ((1 - lam) * values[t + 1] + lam * carry)
        out.append(carry)
    return torch.stack(out[::-1])


def agent_loss(agent, traj):
    states, actions, rewards, alive = traj
    values = agent.value(states).squeeze(-1)
    returns = lambda_returns(rewards, alive, values)
    value_loss = F.smooth_l1_loss(values[:-1], returns)
    advantage = (returns - values[:-1]).detach()
    policy_loss = -(agent.log_prob(states[:-1], actions) * advantage).mean()
    return policy_loss + 0.5 * value_loss - 1e-3 * agent.entropy()


def trajectories(n):
    g = torch.Generator().manual_seed(4)
    for _ in range(n):
        s = torch.randn(BATCH, STATE, generator=g)
        states, actions, rewards = [s], [], []
        for _ in range(HORIZON):
            a = torch.randn(BATCH, ACTION, generator=g).clamp(-1, 1)
            vel = s[:, 2:] + 0.1 * a
            s = torch.cat([s[:, :2] + 0.1 * vel, vel], 1)
            states.append(s)
            actions.append(a)
            rewards.append(-(s ** 2).sum(-1) - 0.01 * (a ** 2).sum(-1))
        alive = (torch.rand(HORIZON, BATCH, generator=g) > 0.05).float()
        yield torch.stack(states), torch.stack(actions), torch.stack(rewards), alive


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    agent = Agent().to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    torch_xla.sync()
    for step, traj in enumerate(trajectories(6)):
        traj = [t.to(device) for t in traj]
        optimizer.zero_grad()
        loss = agent_loss(agent, traj)
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        torch_xla.sync()
        if step % 3 == 2:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
