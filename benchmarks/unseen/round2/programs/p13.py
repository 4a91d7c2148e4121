import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

from p13_losses import SemiHardTriplet


class FaceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())
        self.fc = nn.Linear(32, 8)

    def forward(self, x):
        return F.normalize(self.fc(self.conv(x).flatten(1)), dim=1)


def sample(prototypes, per_class=3):
    y = torch.arange(4).repeat_interleave(per_class)
    return prototypes[y] + 0.8 * torch.randn(len(y), 1, 12, 12), y


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    prototypes = torch.randn(4, 1, 12, 12)
    net, loss_fn = FaceNet().to(device), SemiHardTriplet(margin=0.3)
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    for it in range(8):
        x, y = sample(prototypes)
        loss = loss_fn(net(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(it, loss.item())


main()
