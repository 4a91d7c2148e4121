import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Replay:
    def __init__(self, capacity, batch_size):
        self.data = deque(maxlen=capacity)
        self.batch_size = batch_size

    def push(self, *transition):
        self.data.append(transition)

    def sample(self, rng):
        rows = rng.sample(list(self.data), min(len(self.data), self.batch_size))
        return [torch.stack(c) for c in zip(*rows)]


def q_net():
    return nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))


class Agent:
    def __init__(self, device, gamma=0.98, tau=0.05):
        self.device, self.gamma, self.tau = device, gamma, tau
        self.q, self.target = q_net().to(device), q_net().to(device)
        self.opt = torch.optim.RMSprop(self.q.parameters(), lr=1e-3)

    def learn(self, batch):
        s, a, r, s2 = (t.to(self.device) for t in batch)
        value = self.q(s).gather(1, a).squeeze(1)
        with torch.no_grad():
            best = self.target(s2).max(1).values
        loss = F.smooth_l1_loss(value, r + self.gamma * best)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, t in zip(self.q.parameters(), self.target.parameters()):
                t.lerp_(p, self.tau)
        torch_xla.sync()
        return loss


def main():
    rng = random.Random(5)
    torch.manual_seed(5)
    agent, memory = Agent(torch_xla.device()), Replay(500, 32)
    state = torch.randn(4)
    for frame in range(48):
        action, nxt = rng.randrange(2), torch.randn(4)
        memory.push(state, torch.tensor([action]), nxt.sum(), nxt)
        state = nxt
        if frame % 4 == 3:
            loss = agent.learn(memory.sample(rng))
            print(frame, len(memory.data), round(loss.item(), 4))


main()
