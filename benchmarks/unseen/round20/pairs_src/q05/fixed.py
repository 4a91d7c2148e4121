"""Double DQN learner on replayed transitions."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT = 12, 5


def build():
    return nn.Sequential(nn.Linear(OBS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, ACT))


class Learner:
    def __init__(self, device, gamma=0.98, target_every=3):
        self.device = device
        self.online = build().to(device)
        self.target = copy.deepcopy(self.online)
        self.opt = torch.optim.SGD(self.online.parameters(), lr=5e-3, momentum=0.9, weight_decay=1e-5)
        self.gamma = gamma
        self.target_every = target_every
        self.updates = 0

    def sync_target(self, tau):
        with torch.no_grad():
            for pt, po in zip(self.target.parameters(), self.online.parameters()):
                pt.add_(tau * (po - pt))

    def update(self, batch):
        o, a, r, o2, done = [b.to(self.device) for b in batch]
        q = self.online(o).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.online(o2).argmax(1)
            q2 = self.target(o2).gather(1, best[:, None]).squeeze(1)
            y = r + self.gamma * (1 - done) * q2
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        tau = 0.5 if self.updates % self.target_every == 0 else 0.0
        self.sync_target(torch.tensor([tau]).to(self.device))
        torch_xla.sync()
        return loss


def replay(n=32):
    return (torch.randn(n, OBS), torch.randint(0, ACT, (n,)), torch.randn(n), torch.randn(n, OBS),
            (torch.rand(n) < 0.1).float())


if __name__ == "__main__":
    torch.manual_seed(0)
    learner = Learner(torch_xla.device())
    for _ in range(7):
        learner.update(replay())
