import torch
import torch.nn as nn
import torch_xla


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.linears = nn.ModuleList(
            nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))

    def forward(self, x):
        for layer in self.linears:
            x = layer(x).relu()
        return x


class SetRegressor(nn.Module):
    def __init__(self, features=5, width=16, targets=2):
        super().__init__()
        self.output = nn.Linear(width, targets)
        self.attention = nn.Linear(width, 1)
        self.point_net = MLP([features, width, width])

    def pool(self, points):
        logits = self.attention(points).squeeze(-1)
        weights = logits.softmax(dim=1)
        return (weights.unsqueeze(-1) * points).sum(dim=1)

    def forward(self, points):
        points = self.point_net(points)
        return self.output(self.pool(points))


class Trainer:
    def __init__(self, device):
        self.device = device
        self.net = SetRegressor().to(device)
        self.criterion = nn.SmoothL1Loss()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)

    def step(self, points, target):
        self.optimizer.zero_grad()
        loss = self.criterion(self.net(points), target)
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        return loss

    def fit(self, steps):
        for i in range(steps):
            points = torch.randn(8, 6, 5)
            target = torch.stack(
                [points.amax((1, 2)), points.mean((1, 2))], 1)
            loss = self.step(points.to(self.device), target.to(self.device))
            print(i, round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(10)
    Trainer(torch_xla.device()).fit(5)
