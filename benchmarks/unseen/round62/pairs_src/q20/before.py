"""PointNet classifier for LiDAR tree crowns, with the learned alignment of the input."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SPECIES = 5
POINTS = 48
BATCH = 8
STEPS = 5


class AlignNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 16, 1)
        self.conv2 = nn.Conv1d(16, 32, 1)
        self.fc1 = nn.Linear(32, 16)
        self.fc2 = nn.Linear(16, 9)
        nn.init.normal_(self.fc2.weight, std=0.01)
        with torch.no_grad():
            self.fc2.bias.copy_(torch.eye(3).flatten())

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = F.relu(self.conv2(h))
        h = torch.max(h, 2)[0]
        h = F.relu(self.fc1(h))
        return self.fc2(h).view(-1, 3, 3)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.align = AlignNet()
        self.conv1 = nn.Conv1d(4, 32, 1)
        self.bn1 = nn.BatchNorm1d(32)
        self.conv2 = nn.Conv1d(32, 48, 1)
        self.bn2 = nn.BatchNorm1d(48)
        self.fc1 = nn.Linear(48, 24)
        self.bn3 = nn.BatchNorm1d(24)
        self.fc2 = nn.Linear(24, SPECIES)

    def forward(self, xyz, intensity):
        # xyz (B, N, 3), intensity (B, N)
        xyz = xyz.transpose(2, 1)
        trans = self.align(xyz)
        xyz = torch.bmm(xyz.transpose(2, 1), trans).transpose(2, 1)
        x = torch.cat([xyz, intensity.unsqueeze(1)], 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2)[0]
        x = F.relu(self.bn3(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1), trans


def orthogonality(trans):
    eye = torch.eye(3, device=trans.device).unsqueeze(0)
    diff = torch.bmm(trans, trans.transpose(2, 1)) - eye
    return torch.mean(torch.norm(diff, dim=(1, 2)))


def crowns(seed):
    rng = np.random.default_rng(seed)
    while True:
        y = rng.integers(0, SPECIES, BATCH)
        xyz = rng.normal(size=(BATCH, POINTS, 3)) * (1 + 0.2 * y[:, None, None])
        intensity = rng.random((BATCH, POINTS))
        yield (torch.from_numpy(xyz.astype(np.float32)), torch.from_numpy(intensity.astype(np.float32)),
               torch.from_numpy(y))


def train_step(model, optimizer, xyz, intensity, y):
    optimizer.zero_grad()
    logp, trans = model(xyz, intensity)
    loss = F.nll_loss(logp, y) + 0.001 * orthogonality(trans)
    loss.backward()
    optimizer.step()
    correct = logp.detach().max(1)[1].eq(y).sum()
    return loss, correct


def main():
    torch.manual_seed(40)
    device = torch_xla.device()
    model = PointNet().to(device)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4, foreach=False)
    torch_xla.sync()
    for step, (xyz, intensity, y) in zip(range(STEPS), crowns(41)):
        loss, correct = train_step(model, optimizer, xyz.to(device), intensity.to(device), y.to(device))
        torch_xla.sync()
        print(step, loss.item(), correct.item())


if __name__ == "__main__":
    main()
