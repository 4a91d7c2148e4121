"""Fusion of camera and lidar features for traffic-participant classification."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES = 4


class CameraBranch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1)

    def forward(self, image):
        h = F.relu(self.conv1(image))
        h = F.relu(self.conv2(h))
        return h.mean((2, 3))


class LidarBranch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.point1 = nn.Linear(4, 2 * width)
        self.point2 = nn.Linear(2 * width, width)

    def forward(self, cloud):
        h = torch.tanh(self.point1(cloud))
        return self.point2(h).amax(1)


class FusionNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.camera = CameraBranch(width)
        self.lidar = LidarBranch(width)
        self.merge = nn.Linear(2 * width, 12)
        self.classify = nn.Linear(12, CLASSES)

    def forward(self, image, cloud):
        cam = self.camera(image)
        lid = self.lidar(cloud)
        h = F.softplus(self.merge(torch.cat([cam, lid], 1)))
        return self.classify(h)


def scene(step, batch=8):
    g = torch.Generator().manual_seed(step)
    label = torch.randint(0, CLASSES, (batch,), generator=g)
    image = torch.randn(batch, 3, 12, 12, generator=g) + label[:, None, None, None] * 0.3
    cloud = torch.randn(batch, 20, 4, generator=g) * (1 + label[:, None, None])
    return image, cloud, label


def main(steps=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = FusionNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
    torch_xla.sync()
    for step in range(steps):
        image, cloud, label = (t.to(device) for t in scene(step))
        loss = F.cross_entropy(model(image, cloud), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xm.mark_step()
        print(step, f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
